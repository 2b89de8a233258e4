"""A file that changes while a run goes on fails its tasks; nothing that was read from it is kept or reused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import cenote
from builders.file_servers import FileServer
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

from ..conftest import Desk

EVENTS = 900
FLOW = """
    plugins: [ops.py]
    data: {{datasets: [{{name: d, files: ["{first}", "{file}"], on_bad_file: skip}}]}}
    sources: {{events: {{{source}, chunk_size: 300}}}}
    analysis:
      stages:
        - {{id: Meddle, op: custom.meddle, execution: {{retries: 3}}}}
        - id: X
          op: hep.hist
          params: {{axes: [{{name: x, source: x, bins: {{nbins: 10, low: 0, high: 10}}}}]}}
          render: []
    execution: {{backend: {backend}, pools: {{default: {{workers: 1}}}}}}
"""
OPS = """
    import os
    from pathlib import Path
    from cenote import operation

    @operation("custom.meddle", reads=["x"], adds=["y"])
    def meddle(events):
        here = Path({folder!r})
        with (here / "calls").open("a") as calls:
            calls.write("one\\n")
        if (here / "next").exists():
            os.replace(here / "{file}", here / "before")
            os.replace(here / "next", here / "{file}")
        return {{"y": events["x"]}}
"""
SINKS = {"root_tree": "root_tree", "rntuple": "root_tree", "parquet": "parquet", "arrow": "arrow", "csv": "csv"}
SINKS |= {"json": "json", "hdf5": "hdf5"}


def write(path: Path, kind: str, value: float) -> None:
    """A file with the same number everywhere."""
    columns: dict[str, Column] = {"x": np.full(EVENTS, value)}
    if kind == "rntuple":
        import uproot

        with uproot.recreate(path) as file:
            file.mkrntuple("Events", columns)
        return
    if kind == "numberless":  # as ROOT writes files that are to be reproducible
        import uproot

        with uproot.recreate(path, compression=None, uuid_function=lambda: UUID(int=0)) as file:
            file.mktree("Events", columns)
        return
    if kind == "csv":
        path.write_text("x\n" + f"{value}\n" * EVENTS)
        return
    settings: dict[str, Any] = {"tree": "Events"} if kind == "root_tree" else {}
    sink = registry.make(PluginKind.SINK, SINKS[kind], settings)
    sink.write(Events(columns, EVENTS, dataset=DatasetInfo(name="d", eventtype="mc")), path)


def values(run: cenote.Run) -> list[float]:
    found: list[float] = run.product("X").values().tolist()
    return found


def all_at(value: float) -> list[float]:
    """Of the second file; those of the first are at 4.5."""
    return [float(EVENTS) * (number in (4, int(value))) for number in range(10)]


@pytest.fixture
def meddled(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A flow whose first task replaces the second of its files by another one."""
    monkeypatch.chdir(desk.folder)

    def made(kind: str, source: str = "", *, file: str = "a.file", address: str = "", backend: str = "local") -> Path:
        write(desk.folder / "first.file", kind, 4.5)
        write(desk.folder / file, kind, 2.5)
        write(desk.folder / "next", kind, 7.5)
        os.utime(desk.folder / file, (1, 1))  # or both may have been written at the same time, as far as clocks tell
        desk.write("ops.py", OPS.format(folder=str(desk.folder), file=file))
        source = source or f"kind: {'root_tree' if kind in ('rntuple', 'numberless') else kind}"
        files = {"first": f"{address}first.file", "file": f"{address}{file}"}
        return desk.write("flow.yaml", FLOW.format(**files, source=source, backend=backend))

    return made


def ended_with_the_message(run: cenote.Run, file: str) -> None:
    assert (run.status, run.exit_code) == ("failed", 22)
    (failure,) = run.summary["failures"]
    assert (failure["kind"], failure["cause"], failure["attempts"]) == ("changed-input", "changed_input", 1)
    assert f"{file} changed while the run was going on" in failure["message"]
    assert "run again" in failure["message"]


@pytest.mark.parametrize(
    ("kind", "backend"),
    [*((kind, "local") for kind in SINKS), ("root_tree", "dask")],
)
def test_the_run_says_so_and_the_next_ones_are_right(
    desk: Desk, meddled: Callable[..., Path], kind: str, backend: str
) -> None:
    flow = meddled(kind, backend=backend)
    ended_with_the_message(cenote.load(flow).run("out", report=False), "a.file")
    assert values(cenote.load(flow).run("out", report=False)) == all_at(7.5)
    (desk.folder / "before").replace(desk.folder / "a.file")
    assert values(cenote.load(flow).run("out", report=False)) == all_at(2.5), "what was right before is so again"


@pytest.mark.parametrize("kind", ["root_tree", "parquet"])
def test_a_copy_that_takes_its_place_meanwhile_is_told_of_and_the_next_run_goes_on(
    desk: Desk, meddled: Callable[..., Path], kind: str
) -> None:
    """While a run goes on, whatever is written is a change: nobody knows yet what it will be."""
    flow = meddled(kind)
    shutil.copyfile(desk.folder / "a.file", desk.folder / "next")
    ended_with_the_message(cenote.load(flow).run("out", report=False), "a.file")
    again = cenote.load(flow).run("out", report=False)
    assert values(again) == all_at(2.5)
    assert again.summary["tasks"]["reused"] > 0


@pytest.mark.parametrize("kind", SINKS)
def test_a_file_that_was_written_over_is_not_taken_for_its_copy(tmp_path: Path, kind: str) -> None:
    """The copy has the same name, time and size; what was kept open is the other one."""
    file, copy, other = tmp_path / "a.file", tmp_path / "copy", tmp_path / "other"
    write(file, kind, 2.5)
    write(other, kind, 7.5)
    shutil.copy2(file, copy)
    source = registry.make(PluginKind.SOURCE, "root_tree" if kind == "rntuple" else kind, {})
    assert source.read(str(file), ["x"], 0, 10)["x"].tolist() == [2.5] * 10
    file.write_bytes(other.read_bytes())
    copy.replace(file)
    assert source.read(str(file), ["x"], 10, 20)["x"].tolist() == [2.5] * 10


def test_a_file_beside_it_counts_as_well(meddled: Callable[..., Path]) -> None:
    inputs = '[{prefix: "", kind: parquet}, {prefix: l, kind: parquet, file: "b.parquet"}]'
    flow = meddled("parquet", f"kind: zip, inputs: {inputs}", file="b.parquet")
    flow.write_text(flow.read_text().replace(', "b.parquet"]', "]").replace("source: x", "source: l_x"))
    ended_with_the_message(cenote.load(flow).run("out", report=False), "first.file")
    assert values(cenote.load(flow).run("out", report=False)) == [0, 0, 0, 0, 0, 0, 0, EVENTS, 0, 0]


@pytest.fixture
def server(desk: Desk) -> Iterator[FileServer]:
    with FileServer(desk.folder).serving() as serving:
        yield serving


@pytest.mark.parametrize("kind", ["root_tree", "rntuple", "numberless", "parquet", "csv"])
def test_a_file_elsewhere_counts_as_well(
    desk: Desk, server: FileServer, meddled: Callable[..., Path], kind: str
) -> None:
    """Also one of the same size: ROOT writes names into files, and both have four letters."""
    flow = meddled(kind, address=f"{server.url}/", file="here")
    ended_with_the_message(cenote.load(flow).run("out", report=False), f"{server.url}/here")
    assert values(cenote.load(flow).run("out", report=False)) == all_at(7.5)
    (desk.folder / "before").replace(desk.folder / "here")
    assert values(cenote.load(flow).run("out", report=False)) == all_at(2.5)


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(
    desk: Desk, meddled: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stamp was right when reading began."""
    from cenote.analysis.sources.csv import CsvSource

    flow = meddled("csv")
    read = CsvSource.read_placed

    def meddling(self: CsvSource, *asked: Any) -> dict[str, Column]:
        if (desk.folder / "next").exists():
            (desk.folder / "next").replace(desk.folder / "a.file")
        return read(self, *asked)

    monkeypatch.setattr(CsvSource, "read_placed", meddling)
    flow.write_text(
        flow.read_text().replace("        - {id: Meddle, op: custom.meddle, execution: {retries: 3}}\n", "")
    )
    ended_with_the_message(cenote.load(flow).run("out", report=False), "a.file")


def test_a_source_whose_stamps_are_its_own_is_believed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    desk.write(
        "source.py",
        """
        from typing import ClassVar
        import numpy as np
        from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source

        class Ones(Source):
            "Reads ones."
            cenote_plugin: ClassVar = ("source", "ones")
            def describe(self, url):
                return FileInfo(url, 1, "the first edition", 4, {"x": ColumnInfo("double", 32)})
            def read(self, url, columns, start, stop):
                return {name: np.ones(stop - start) for name in columns}
    """,
    )
    desk.write("a.file", "")
    flow = desk.write(
        "flow.yaml",
        """
        plugins: [source.py]
        data: {datasets: [{name: d, files: [a.file]}]}
        sources: {events: {kind: ones}}
        analysis:
          stages:
            - id: X
              op: hep.hist
              params: {axes: [{name: x, source: x, bins: {nbins: 2, low: 0, high: 2}}]}
              render: []
    """,
    )
    assert values(cenote.load(flow).run("out", report=False)) == [0, 4]
