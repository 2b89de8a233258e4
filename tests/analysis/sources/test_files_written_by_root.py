"""Check what is read of files that only ROOT writes: those of `written_by_root`, and what its macro put into them."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import cenote
from cenote.analysis.sources.root_tree.source import RootTreeSource

FILES = Path(__file__).parent / "written_by_root"


def read(name: str, column: str, start: int, stop: int) -> Any:
    return RootTreeSource().read(str(FILES / f"{name}.root"), [column], start, stop)[column]


def whole(name: str, column: str) -> Any:
    return read(name, column, 0, RootTreeSource().describe(str(FILES / f"{name}.root")).entries)


CUTS = [(0, 40), (0, 1, 2, 7, 19, 40), (0, 0, 3, 4, 39, 40)]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_texts_are_those_that_were_written_also_where_some_are_empty(cuts: tuple[int, ...]) -> None:
    written = ["" if i % 3 == 0 else "x" * 300 if i % 10 == 5 else f"t{i}" for i in range(40)]
    assert [text for piece in pairwise(cuts) for text in read("texts", "text", *piece).to_list()] == written


@pytest.mark.parametrize("cuts", [(0, 200), (0, 1, 50, 51, 130, 200), (0, 0, 99, 200)], ids=str)
def test_lists_whose_baskets_do_not_say_where_they_begin_are_read_by_their_counter(cuts: tuple[int, ...]) -> None:
    counts = [(i * 7) % 5 for i in range(200)]
    pt = [entry for piece in pairwise(cuts) for entry in read("no_offsets", "pt", *piece).to_list()]
    point = [entry for piece in pairwise(cuts) for entry in read("no_offsets", "point", *piece).to_list()]
    assert pt == [[i + k / 4 for k in range(n)] for i, n in enumerate(counts)]
    assert point == [[[i * 100 + k * 10 + m for m in range(3)] for k in range(n)] for i, n in enumerate(counts)]


def test_the_bits_of_objects_that_others_refer_to_are_read() -> None:
    bits = whole("objects", "Trace_fBits")
    referenced = [[(i + k) % 2 == 1 for k in range((i + 1) % 4)] for i in range(20)]
    assert ((bits & (1 << 4)) != 0).to_list() == referenced
    assert whole("objects", "Trace_pt").to_list() == [[i + k / 2 for k in range((i + 1) % 4)] for i in range(20)]


@pytest.fixture
def little_memory() -> Iterator[None]:
    """What is there already, and 2 GB."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2_000_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
def test_every_column_of_objects_can_be_read_or_says_that_it_cannot() -> None:
    found = RootTreeSource().describe(str(FILES / "objects.root"))
    unreadable = {name for name, column in found.columns.items() if column.unreadable}
    assert {"hits_x", "tracks_pt", "collision__run", "Trace_hits_x"} <= unreadable
    assert {"number", "lists", "Trace_pt", "Trace_fBits", "Trace_best_ref"} <= found.columns.keys() - unreadable
    for name in found.columns.keys() - unreadable:
        assert len(whole("objects", name)) == found.entries


@pytest.mark.parametrize(("column", "is_readable"), [("collision__run", False), ("num(lists)", True)])
def test_check_names_a_column_that_cannot_be_read_where_a_stage_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, is_readable: bool
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "flow.yaml").write_text(
        f"data: {{datasets: [{{name: d, files: ['{FILES / 'objects.root'}']}}]}}\n"
        f"analysis: {{stages: [{{id: A, op: filter, params: {{expr: '{column} > 0'}}}}]}}\n"
    )
    problems = cenote.load(tmp_path / "flow.yaml").check().problems
    assert [
        "stage 'A' reads 'collision__run': branch 'collision__run' holds Collision" in one.message for one in problems
    ] == [True] * (not is_readable)


@pytest.mark.parametrize(("name", "bits"), [("steps_20", 20), ("steps_32", 32), ("lists", 24)])
def test_steps_of_an_rntuple_are_double_precision_where_the_field_is(name: str, bits: int) -> None:
    written = np.array([-3 + 20 * ((i * 7919) % 1000) / 999 for i in range(50)])
    found = whole("quantised", name)
    if name == "lists":
        assert ak.num(found).to_list() == [i % 3 for i in range(50)]
        found, written = ak.to_numpy(ak.flatten(found)), np.repeat(written, np.arange(50) % 3)
    size = 20 / (2**bits - 1)
    assert found.dtype == np.float64
    assert found.tolist() == (-3 + np.round((written + 3) / size) * size).tolist()


def test_other_short_fractions_have_the_type_of_their_field() -> None:
    assert whole("quantised", "single").dtype == np.float32
    assert whole("quantised", "cut_20").dtype == np.float64
    assert read("quantised", "cut_20", 1, 2).tolist() == [float.fromhex("0x1.ecap+3")]
