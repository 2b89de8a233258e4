"""Files are read by their address: the numbers are those of the same file on this machine."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import cenote

from .conftest import Desk

STAGES = """
    analysis:
      stages:
        - {id: Hard, op: hep.select, params: {selection: "MET_pt > 20"}}
        - id: Pt
          op: hep.hist
          render: []
          params: {axes: [{name: pt, source: Muon_pt, bins: {nbins: 30, low: 0, high: 150}}]}
"""


class Ranges(SimpleHTTPRequestHandler):
    """A file server that answers `Range: bytes=a-b`, as those for data do."""

    asked: list[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        self.asked.append(self.headers.get("Range", "everything"))
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        content = path.read_bytes()
        start, stop = int(wanted[1]), min(int(wanted[2]) + 1, len(content))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        self.wfile.write(content[start:stop])

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Not on the terminal."""


@pytest.fixture
def asked() -> list[str]:
    """The ranges that were asked for."""
    return []


@pytest.fixture
def server(desk: Desk, asked: list[str]) -> Iterator[str]:
    """The address of a server of `far/`."""
    far = desk.folder / "far"
    far.mkdir()
    handler = type("Asked", (Ranges,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(far))) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}"
        finally:
            serving.shutdown()
            thread.join(timeout=10)


def run_on(desk: Desk, address: str, out: str, *, source: str = "root_tree", workers: int | None = None) -> cenote.Run:
    head = f"data: {{datasets: [{{name: d, files: ['{address}']}}]}}\nsources: {{events: {{kind: {source}}}}}\n"
    flow = desk.write(f"{out}.yaml", head + dedent(STAGES))
    run = cenote.load(flow).run(desk.folder / out, workers=workers)
    assert run.status == "succeeded", run.failures
    return run


@pytest.mark.parametrize("workers", [None, 2])
def test_a_root_file_over_http_gives_the_same_histogram(
    desk: Desk, server: str, asked: list[str], workers: int | None
) -> None:
    local = desk.muons("a.root", events=3000)
    shutil.copy(local, desk.folder / "far" / "a.root")
    near = run_on(desk, str(local), "near")
    far = run_on(desk, f"{server}/a.root", "distant", workers=workers)
    assert far.product("Pt") == near.product("Pt")
    assert near.product("Pt").sum(flow=True) > 0
    assert "everything" not in asked, "only the parts that are needed were fetched"


def test_a_parquet_file_over_http_gives_the_same_histogram(desk: Desk, server: str) -> None:
    import awkward as ak
    import uproot

    arrays = uproot.open(desk.muons("a.root", events=1000))["events"].arrays(["MET_pt", "Muon_pt"])
    ak.to_parquet(arrays, desk.folder / "far" / "a.parquet")
    near = run_on(desk, "far/a.parquet", "near", source="parquet")
    far = run_on(desk, f"{server}/a.parquet", "distant", source="parquet")
    assert far.product("Pt") == near.product("Pt")


def test_a_file_that_the_server_does_not_have_is_named(desk: Desk, server: str) -> None:
    flow = desk.write("flow.yaml", f"data: {{datasets: [{{name: d, files: ['{server}/b.root']}}]}}\n" + dedent(STAGES))
    finished = desk.typed("check", str(flow))
    assert f"{server}/b.root" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.returncode == 11


def test_a_server_that_does_not_answer_is_named(desk: Desk) -> None:
    flow = desk.write(
        "flow.yaml",
        "data: {datasets: [{name: d, files: ['http://127.0.0.1:9/a.root']}]}\n" + dedent(STAGES),
    )
    finished = desk.typed("check", str(flow))
    assert "http://127.0.0.1:9/a.root" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.returncode == 11
