"""Check that files are compared with the checksums that their catalogue knows, where a dataset asks for it."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import cenote
from cenote.common.errors import CenoteError
from cenote.planning.inputs import digests

FLOW = """
data:
  datasets:
    - {{name: mc, files: [{listing}], verify: digest{more}}}
analysis:
  stages:
    - {{id: H, op: hep.hist, params: {{axes: [{{source: x, bins: {{low: 0, high: 1, nbins: 4}}}}]}}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        with uproot.recreate(tmp_path / f"{name}.root", compression=uproot.ZSTD(1)) as file:
            file.mktree("Events", {"x": "f8"}).extend({"x": np.random.default_rng(1).random(1000)})
    return tmp_path


def adler32(path: Path) -> str:
    return f"{zlib.adler32(path.read_bytes()):08x}"


def listing(folder: Path, **wrong: str) -> None:
    replicas = [
        {"name": name, "adler32": wrong.get(name, adler32(folder / f"{name}.root")), "pfns": {f"{name}.root": {}}}
        for name in ("a", "b")
    ]
    (folder / "replicas.json").write_text(json.dumps(replicas))


def flow(folder: Path, *, listing: str = "replicas.json", more: str = "") -> cenote.Analysis:
    (folder / "flow.yaml").write_text(FLOW.format(listing=listing, more=more))
    return cenote.load(folder / "flow.yaml")


def with_another_bit(path: Path) -> None:
    """In the last third, where its values are; size and modification time stay as they were."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_is_what_the_catalogue_knows_is_read(folder: Path) -> None:
    listing(folder)
    assert flow(folder).run(folder / "out").summary["events"] == 2000


def test_a_file_that_is_another_one_is_a_bad_input_by_its_name(folder: Path) -> None:
    listing(folder)
    with_another_bit(folder / "b.root")
    with pytest.raises(
        CenoteError, match=r"b\.root is not the file that its catalogue knows: its adler32 is"
    ) as raised:
        flow(folder).run(folder / "out")
    (problem,) = raised.value.problems
    assert problem.kind.name == "bad-input"


def test_so_it_is_in_a_table_that_rucio_printed_and_can_be_skipped(folder: Path) -> None:
    rows = [
        f"| mc | {name} | 1 kB | {adler32(folder / 'a.root')} | SITE: file://{folder}/{name}.root |" for name in "ab"
    ]
    (folder / "replicas.txt").write_text("+---+---+\n" + "\n".join(rows) + "\n")
    with_another_bit(folder / "b.root")
    run = flow(folder, listing="replicas.txt", more=", on_bad_file: skip").run(folder / "out")
    assert [Path(one["file"]).name for one in run.summary["skipped"]] == ["b.root"]


def test_a_file_is_compared_once_as_long_as_it_stays_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(folder)
    calls: list[str] = []
    compute = digests._adler32
    monkeypatch.setattr(digests, "_adler32", lambda url: calls.append(url) or compute(url))
    for _ in range(2):
        flow(folder).plan()
    assert len(calls) == 2
    os.utime(folder / "a.root")
    flow(folder).plan()
    assert len(calls) == 3


def test_files_without_a_known_checksum_are_told_of(folder: Path) -> None:
    warnings: Any = flow(folder, listing="'*.root'").plan().warnings
    assert any("dataset 'mc': no checksum is known of 2 of 2 files, which are not verified" in one for one in warnings)
