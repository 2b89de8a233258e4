"""Histograms of one plain axis are written to ROOT files as uproot writes them, to the byte, without uproot."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot

from cenote.analysis.products.histogram import HistogramProduct, write_by_uproot
from cenote.analysis.products.support.root_file import root_file, th1d

WEIGHT, DOUBLE = hist.storage.Weight, hist.storage.Double
RANDOM = np.random.default_rng(1)


def a_histogram(axis: Any, storage: Any = WEIGHT, values: int = 1000) -> Any:
    made = hist.Hist(axis, storage=storage())
    numbers = RANDOM.normal(1, 2, values)
    made.fill(numbers, **({"weight": RANDOM.normal(1, 0.3, values)} if storage is WEIGHT else {}))
    return made


PLAIN = {
    "H": a_histogram(hist.axis.Regular(100, 0, 2, name="x", label="p_{T} [GeV]")),
    "without_label": a_histogram(hist.axis.Regular(3, -1, 1)),
    "edges": a_histogram(hist.axis.Variable([0, 1, 5, 7.5], name="y"), DOUBLE),
    "Zerfälle": a_histogram(hist.axis.Regular(10, 0, 1, name="µ" * 300)),
    "n" * 300: a_histogram(hist.axis.Regular(1, 0, 1), DOUBLE),
    "empty": a_histogram(hist.axis.Regular(5, 0, 1), values=0),
    "many_bins": a_histogram(hist.axis.Regular(100_000, -5, 5), values=200_000),
}


def contents(path: Path) -> dict[str, bytes]:
    """Name → the object, decompressed."""
    with uproot.open(path) as file:
        keys = {name: file.key(name) for name in file.keys()}  # noqa: SIM118  # those of a file are a function
        return {name: bytes(key.get_uncompressed_chunk_cursor()[0].raw_data) for name, key in keys.items()}


def record(whole: bytes, place: int) -> tuple[int, bytes]:
    """How long the record at this place is, and what is in it, decompressed. It knows its place itself."""
    size, _, length, _, key, _, seek, _ = struct.unpack_from(">iHiIhhii", whole, place)
    assert seek == place
    content = whole[place + key : place + size]
    return size, content if len(content) == length else zlib.decompress(content[9:])


def streamers(path: Path) -> bytes:
    """What the file says of its classes."""
    whole = path.read_bytes()
    return record(whole, struct.unpack_from(">4s7iB3i", whole)[-2])[1]


def test_what_is_written_is_what_uproot_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.root", tmp_path / "theirs.root"
    ours.write_bytes(root_file(ours.name, [found for name, one in PLAIN.items() if (found := th1d(name, one))]))
    write_by_uproot(theirs, list(PLAIN.items()))
    assert contents(ours) == contents(theirs)
    with uproot.open(ours) as first, uproot.open(theirs) as second:
        assert first.file.streamers.keys() == second.file.streamers.keys()
        assert first.file.fEND == ours.stat().st_size
        assert set(first.keys()) == {f"{name};1" for name in PLAIN}
    assert streamers(ours) == streamers(theirs)


def test_records_follow_each_other_to_the_end_of_the_file() -> None:
    whole = root_file("H.root", [found for name, one in PLAIN.items() if (found := th1d(name, one))])
    place, count = 100, 0
    while place < len(whole):
        place, count = place + record(whole, place)[0], count + 1
    assert (place, count) == (len(whole), len(PLAIN) + 4)


def test_others_can_add_to_the_file(tmp_path: Path) -> None:
    target = tmp_path / "H.root"
    found = th1d("H", PLAIN["H"])
    assert found is not None
    target.write_bytes(root_file(target.name, [found]))
    with uproot.update(target) as file:
        file["more"] = PLAIN["edges"]
    with uproot.open(target) as file:
        assert np.array_equal(file["H"].values(flow=True), PLAIN["H"].values(flow=True))
        assert np.array_equal(file["H"].variances(flow=True), PLAIN["H"].variances(flow=True))
        assert np.array_equal(file["more"].values(flow=True), PLAIN["edges"].values(flow=True))


@pytest.mark.parametrize(
    "odd",
    [
        hist.Hist(hist.axis.Integer(0, 5), storage=WEIGHT()),
        hist.Hist(hist.axis.Boolean(), storage=DOUBLE()),
        hist.Hist(hist.axis.Regular(5, 1, 10, transform=hist.axis.transform.log), storage=WEIGHT()),
        hist.Hist(hist.axis.Regular(5, 0, 1, circular=True), storage=WEIGHT()),
        hist.Hist(hist.axis.Regular(5, 0, 1, underflow=False), storage=WEIGHT()),
        hist.Hist(hist.axis.Regular(5, 0, 1, growth=True), storage=WEIGHT()),
        hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Weight(),
        hist.Hist.new.Reg(2, 0, 1).Mean(),
        hist.Hist.new.Reg(2, 0, 1).Int64(),
    ],
)
def test_what_is_not_plain_is_left_to_uproot(odd: Any) -> None:
    assert th1d("H", odd) is None


def test_names_that_uproot_takes_for_folders_are_left_to_it(tmp_path: Path) -> None:
    assert th1d("folder/H", PLAIN["H"]) is None
    both = hist.Hist(hist.axis.StrCategory(["a b", "a-b"]), hist.axis.Regular(2, 0, 1), storage=WEIGHT())
    HistogramProduct().save(both, tmp_path, "H")
    with uproot.open(tmp_path / "H.root") as file:
        assert sorted(file.keys()) == ["H_a_b;1", "H_aminusb;1"]


def test_names_that_differ_in_special_characters_alone_stay_different(tmp_path: Path) -> None:
    names = ["W+", "W-", "W_", "Z/g"]
    made = hist.Hist(hist.axis.StrCategory(names, name="dataset"), hist.axis.Regular(1, 0, 1, name="x"))
    for number, name in enumerate(names):
        made.fill(name, [0.5] * number)
    _, file = HistogramProduct().save(made, tmp_path, "H")
    with uproot.open(file) as found:
        read = {name: (found[name].title, found[name].values()[0]) for name in found.keys(cycle=False)}
    assert read == {"H_Wplus": ("W+", 0), "H_Wminus": ("W-", 1), "H_W_": ("W_", 2), "H_Z_g": ("Z/g", 3)}
