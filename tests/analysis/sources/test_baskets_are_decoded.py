"""Check our own decoding of baskets against uproot's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from cenote.analysis.sources.root_tree.source import RootTreeSource

COMPRESSIONS = {
    "zstd": uproot.ZSTD(1),
    "zlib": uproot.ZLIB(1),
    "lz4": uproot.LZ4(1),
    "lzma": uproot.LZMA(1),
    "none": None,
}
BASKETS = (400, 1, 250, 349)
RANGES = [(0, 1000), (0, 400), (400, 401), (10, 20), (399, 402), (401, 651), (5, 995), (999, 1000)]


def columns(random: np.random.Generator, size: int) -> dict[str, Any]:
    counts = random.poisson(1.5, size)
    total = int(counts.sum())
    found: dict[str, Any] = {
        f"flat_{kind}": random.integers(0, 100, size).astype(kind) for kind in ("?", "i1", "u2", "i4", "u8", "f4", "f8")
    }
    for kind in ("?", "i1", "i4", "f4", "f8"):
        found[f"list_{kind}"] = ak.unflatten(random.integers(0, 100, total).astype(kind), counts)
    found["Muon"] = ak.zip({name: ak.unflatten(random.normal(size=total), counts) for name in ("pt", "eta", "phi")})
    found["constant"] = np.zeros(size)
    return found


@pytest.fixture(params=COMPRESSIONS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    random = np.random.default_rng(7)
    file = tmp_path / "a.root"
    with uproot.recreate(file, compression=COMPRESSIONS[request.param]) as opened:
        pieces = [columns(random, size) for size in BASKETS]
        types = {name: a.type.content if isinstance(a, ak.Array) else a.dtype for name, a in pieces[0].items()}
        tree = opened.mktree("Events", types)
        for piece in pieces:
            tree.extend(piece)
    return file


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_any_range_is_what_uproot_reads(path: Path, start: int, stop: int) -> None:
    with uproot.open(path) as file:
        expected = file["Events"].arrays(entry_start=start, entry_stop=stop)
    found = RootTreeSource().read(str(path), expected.fields, start, stop)
    for name in expected.fields:
        assert ak.array_equal(found[name], expected[name], dtype_exact=True), name


@pytest.mark.parametrize("path", ["zstd"], indirect=True)
def test_branches_of_one_collection_share_their_offsets(path: Path) -> None:
    found = RootTreeSource().read(str(path), ["Muon_pt", "Muon_eta", "list_f8"], 0, 1000)
    assert found["Muon_pt"].layout.offsets.data is found["Muon_eta"].layout.offsets.data
    assert found["list_f8"].layout.offsets.data is not found["Muon_pt"].layout.offsets.data


def test_a_basket_of_several_compressed_blocks_is_read_whole(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 1000, 3_000_000)
    with uproot.recreate(tmp_path / "a.root", compression=uproot.ZSTD(1)) as file:
        file.mktree("Events", {"x": values.dtype}).extend({"x": values})
    assert np.array_equal(RootTreeSource().read(str(tmp_path / "a.root"), ["x"], 0, len(values))["x"], values)
