"""Check that damage to a basket is an error that names file and branch: never a crash, never other values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.common import errors
from cenote.common.errors import CenoteError

COMPRESSIONS = {
    "zstd": uproot.ZSTD(1),
    "zlib": uproot.ZLIB(1),
    "lz4": uproot.LZ4(1),
    "lzma": uproot.LZMA(1),
    "none": None,
}
WITH_CHECKSUM = ["zlib", "lz4", "lzma"]
ENTRIES = 500


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    random, file = np.random.default_rng(2), tmp_path / "a.root"
    counts = random.poisson(2, ENTRIES)
    with uproot.recreate(file, compression=COMPRESSIONS[request.param]) as opened:
        x = random.integers(0, 9, ENTRIES).astype("f4")
        y = ak.unflatten(random.integers(0, 9, int(counts.sum())).astype("f4"), counts)
        opened.mktree("Events", {"x": x.dtype, "y": y.type.content}).extend({"x": x, "y": y})
    return file


Change = Callable[[bytearray, int], None]
"""Damages a basket, given where its payload begins."""


def put(place: int, form: str, value: int) -> Change:
    """Overwrite a number of the key."""
    return lambda basket, _payload: struct.pack_into(form, basket, place, value)


def before_payload(back: int, form: str, value: int) -> Change:
    return lambda basket, payload: struct.pack_into(form, basket, payload - back, value)


def in_payload(at: int, data: bytes) -> Change:
    def change(basket: bytearray, payload: int) -> None:
        basket[payload + at : payload + at + len(data)] = data

    return change


KEYS: dict[str, Change] = {
    "another size": put(0, ">i", 12345),
    "no size": put(0, ">i", 0),
    "a negative length": put(6, ">i", -5),
    "a longer object": put(6, ">i", 1_000_000_000),
    "no key": put(14, ">h", 0),
    "a key past the end": put(14, ">h", 32_000),
    "fewer entries": before_payload(9, ">i", ENTRIES - 1),
    "more entries": before_payload(9, ">i", 2**31 - 1),
    "a border before the start": before_payload(5, ">i", 0),
    "a border past the end": before_payload(5, ">i", 2**31 - 1),
    "a border that is one off": before_payload(5, ">I", 0x0000_0101),
}
OTHER = {b"ZS": b"ZL", b"ZL": b"XZ", b"XZ": b"L4", b"L4": b"ZS"}
BLOCKS: dict[str, Change] = {
    "letters of nothing": in_payload(0, b"\0\0"),
    "letters of an unknown algorithm": in_payload(0, b"QQ"),
    "letters of another algorithm": lambda basket, payload: in_payload(0, OTHER[bytes(basket[payload : payload + 2])])(
        basket, payload
    ),
    "a packed size past the end": in_payload(3, b"\xff\xff\xff"),
    "no packed size": in_payload(3, b"\0\0\0"),
    "another size": in_payload(6, b"\x01\0\0"),
    "no size at all": in_payload(6, b"\0\0\0"),
    "too large a size": in_payload(6, b"\xff\xff\xff"),
}


def damaged(path: Path, branch: str, change: Change) -> Path:
    with uproot.open(path) as file:
        found = file["Events"][branch]
        seek, size = int(found.member("fBasketSeek")[0]), int(found.member("fBasketBytes")[0])
    data = bytearray(path.read_bytes())
    basket = data[seek : seek + size]
    (key_length,) = struct.unpack_from(">h", basket, 14)
    change(basket, key_length)
    assert len(basket) == size
    data[seek : seek + size] = basket
    after = path.with_name("damaged.root")
    after.write_bytes(data)
    return after


def assert_it_is_said(path: Path, branch: str) -> None:
    with pytest.raises(CenoteError) as raised:
        RootTreeSource().read(str(path), [branch], 0, ENTRIES)
    (problem,) = raised.value.problems
    assert problem.kind is errors.UNREADABLE_INPUT
    said = " ".join([problem.message, *problem.details])
    assert f"'{branch}'" in said
    assert str(path) in said


@pytest.mark.parametrize("path", COMPRESSIONS, indirect=True)
@pytest.mark.parametrize("branch", ["x", "y"])
@pytest.mark.parametrize("change", KEYS)
def test_damage_to_the_header_of_a_basket(path: Path, branch: str, change: str) -> None:
    assert_it_is_said(damaged(path, branch, KEYS[change]), branch)


@pytest.mark.parametrize("more", [1, 4, 4_000, 500_000_000])
def test_a_basket_of_texts_that_claims_more_bytes_than_its_blocks_hold(tmp_path: Path, more: int) -> None:
    path = tmp_path / "texts.root"
    path.write_bytes((Path(__file__).parent / "written_by_root" / "texts.root").read_bytes())

    def change(basket: bytearray, _payload: int) -> None:
        (length,) = struct.unpack_from(">i", basket, 6)
        struct.pack_into(">i", basket, 6, length + more)

    with pytest.raises(CenoteError, match=r"compressed blocks hold [0-9]+ bytes instead of [0-9,]+") as raised:
        RootTreeSource().read(str(damaged(path, "text", change)), ["text"], 0, 1)
    assert raised.value.problems[0].kind is errors.UNREADABLE_INPUT


@pytest.mark.parametrize("path", [name for name in COMPRESSIONS if name != "none"], indirect=True)
@pytest.mark.parametrize("branch", ["x", "y"])
@pytest.mark.parametrize("change", BLOCKS)
def test_damage_to_the_header_of_a_compressed_block(path: Path, branch: str, change: str) -> None:
    assert_it_is_said(damaged(path, branch, BLOCKS[change]), branch)


@pytest.mark.parametrize("path", WITH_CHECKSUM, indirect=True)
@pytest.mark.parametrize("where", [0.01, 0.3, 0.6, 0.99])
def test_any_changed_bit_where_there_is_a_checksum(path: Path, where: float) -> None:
    def change(basket: bytearray, payload: int) -> None:
        place = payload + 9 + int((len(basket) - payload - 9) * where)
        basket[place] ^= 0x10

    assert_it_is_said(damaged(path, "y", change), "y")


@pytest.mark.parametrize("path", ["none"], indirect=True)
@pytest.mark.parametrize("offset", [0, 3, -4, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("number", [0, 1, 250, ENTRIES - 1])
def test_lists_that_are_not_one_after_the_other(path: Path, offset: int, number: int) -> None:
    def change(basket: bytearray, _payload: int) -> None:
        struct.pack_into(">i", basket, len(basket) - 4 * (ENTRIES + 1) + 4 * number, offset)

    assert_it_is_said(damaged(path, "y", change), "y")


@pytest.mark.parametrize("path", ["none"], indirect=True)
def test_a_count_of_offsets_that_is_wrong(path: Path) -> None:
    def change(basket: bytearray, _payload: int) -> None:
        struct.pack_into(">i", basket, len(basket) - 4 * (ENTRIES + 2), 7)

    assert_it_is_said(damaged(path, "y", change), "y")


@pytest.mark.parametrize("path", COMPRESSIONS, indirect=True)
def test_random_damage_never_gives_other_lengths(path: Path) -> None:
    """Without a checksum values may change; what comes back still has every entry, or there is an error."""
    random = np.random.default_rng(11)
    for _ in range(40):

        def change(basket: bytearray, _payload: int, random: Any = random) -> None:
            for place in random.integers(0, len(basket), 3):
                basket[place] = random.integers(0, 256)

        file = damaged(path, "y", change)
        try:
            found = RootTreeSource().read(str(file), ["y"], 0, ENTRIES)["y"]
        except CenoteError as problem:
            assert str(file) in str(problem)  # noqa: PT017  # an error is as good as an answer
        else:
            assert len(found) == ENTRIES
            assert ak.is_valid(found)
