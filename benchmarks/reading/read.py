"""Read columns of ROOT files with uproot or with Cenote's source, and say what that took and what was read.

python read.py uproot|cenote OUT.json FILE…
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

COLUMNS = [
    "run",
    "event",
    "genWeight",
    "MET_pt",
    "HLT_IsoMu24",
    "nMuon",
    "Muon_pt",
    "Muon_eta",
    "Muon_phi",
    "Muon_charge",
    "Muon_tightId",
    "Jet_pt",
    "Jet_eta",
]
STEP = 100_000

Chunk = Mapping[str, Any]
"""Column → numpy or awkward array."""


def by_uproot(file: str) -> Iterator[Chunk]:
    """As one writes it."""
    import uproot

    with uproot.open(file) as opened:
        for arrays in opened["Events"].iterate(COLUMNS, step_size=STEP, library="ak"):
            yield {name: arrays[name] for name in COLUMNS}


def by_cenote(file: str) -> Iterator[Chunk]:
    """As a worker reads."""
    from cenote.analysis.sources.root_tree import RootTreeSource

    source = RootTreeSource(tree="Events")
    entries = source.describe(file).entries
    for start in range(0, entries, STEP):
        yield source.read(file, COLUMNS, start, min(entries, start + STEP))


def digest(chunk: Chunk, into: Any) -> None:
    """Types, counts and values of all columns, bit for bit."""
    for name in COLUMNS:
        column = chunk[name]
        if isinstance(column, ak.Array) and column.ndim > 1:
            into.update(np.asarray(ak.num(column), np.int64).tobytes())
            column = ak.flatten(column)
        values = np.ascontiguousarray(np.asarray(column))
        into.update(f"{name} {values.dtype.kind}{values.dtype.itemsize} {len(values)}".encode())
        into.update(values.tobytes())


def main() -> None:
    """CPU seconds of all threads while reading, without what looking at the columns took in this one."""
    way = {"uproot": by_uproot, "cenote": by_cenote}[sys.argv[1]]
    digests = {}
    for chunk in way(sys.argv[3]):
        digest(chunk, hashlib.blake2b())
    looking, began = 0.0, time.process_time()
    for file in sys.argv[4:]:
        found = hashlib.blake2b()
        for chunk in way(file):
            looked = time.thread_time()
            digest(chunk, found)
            looking += time.thread_time() - looked
        digests[Path(file).name] = found.hexdigest()
    reading = time.process_time() - began - looking
    Path(sys.argv[2]).write_text(json.dumps({"reading": reading, "digests": digests}))


if __name__ == "__main__":
    main()
