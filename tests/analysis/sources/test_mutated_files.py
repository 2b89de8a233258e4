"""Check that a file with changed bytes is read, or is a bad input by its name: nothing else may come of it."""

from __future__ import annotations

import random
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem

WRITTEN_BY_ROOT = Path(__file__).parent / "written_by_root"
MUTATIONS = 100
"""Of each file: the same ones every time."""
FEW, MANY = 1, 16
"""Bytes that change."""


@pytest.fixture(params=["numbers", "lists", "ntuple", "texts", "no_offsets", "objects", "quantised"])
def original(request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
    path = tmp_path / "original.root"
    match request.param:
        case "numbers":
            with uproot.recreate(path) as file:
                file.mktree("Events", {"x": "f8", "n": "i4"}).extend({"x": np.arange(500.0), "n": np.arange(500)})
        case "lists":
            with uproot.recreate(path, compression=None) as file:
                file["Events"] = {"l": ak.Array([[1.0, 2.0], [], [3.0]] * 50)}
        case "ntuple":
            with uproot.recreate(path) as file:
                file.mkrntuple("Events", {"x": np.arange(99.0), "l": ak.Array([[1.0], []] * 49 + [[]])})
        case written:
            path = WRITTEN_BY_ROOT / f"{written}.root"
    return path.read_bytes()


def mutated(original: bytes, seed: int) -> bytes:
    """A few bytes changed anywhere, in the header, or in the last third, where the tree and its lists are."""
    chance, data = random.Random(seed), bytearray(original)
    begin, end = chance.choice([(0, len(data)), (0, 400), (len(data) * 2 // 3, len(data))])
    for _ in range(chance.choice([FEW, MANY])):
        place = chance.randrange(begin, end)
        data[place] = chance.choice([0, 255, data[place] ^ (1 << chance.randrange(8)), chance.randrange(256)])
    return bytes(data)


def problem_with(url: str) -> Problem | None:
    """The first that reading everything in a file meets."""
    source = RootTreeSource()
    try:
        source.parts(url)
        found = source.describe(url)
        for name, column in found.columns.items():
            if not column.unreadable:
                source.read(url, [name], 0, min(found.entries, 1000))
    except CenoteError as problem:
        return problem.problems[0]
    return None


def test_a_file_with_changed_bytes_is_read_or_is_named_as_bad(original: bytes, tmp_path: Path) -> None:
    for seed in range(MUTATIONS):
        path = tmp_path / f"{seed}.root"
        path.write_bytes(mutated(original, seed))
        problem = problem_with(str(path))
        if problem is not None:
            assert problem.kind in (errors.BAD_INPUT, errors.UNREADABLE_INPUT)
            assert str(path) in "\n".join((problem.message, *problem.details))


def test_a_damaged_file_is_no_obstacle_to_reading_another_one(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "whole.root") as file:
        file.mkrntuple("Events", {"x": np.arange(99.0)})
    whole = (tmp_path / "whole.root").read_bytes()
    for seed in range(MUTATIONS):
        bad, good = tmp_path / f"bad-{seed}.root", tmp_path / f"good-{seed}.root"
        bad.write_bytes(mutated(whole, seed))
        good.write_bytes(whole)
        problem_with(str(bad))
        assert len(RootTreeSource().read(str(good), ["x"], 0, 99)["x"]) == 99
