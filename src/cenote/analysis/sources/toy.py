"""Generate events: muons, jets and missing momentum, for trying things out without a file."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import AliasChoices, Field

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source, known_column
from cenote.common import errors
from cenote.common.arrays import ak
from cenote.common.errors import ErrorKind

ToyProcess = Literal["dy", "ttbar", "qcd", "data"]
PROCESSES: Mapping[str, Mapping[str, Any]] = {
    "dy": {"muons": (0.05, 0.80, 0.10, 0.05), "jets": (0.10, 0.60, 0.20, 0.10), "muon": 8.0, "jet": 35.0},
    "ttbar": {"muons": (0.10, 0.35, 0.45, 0.10), "jets": (0.03, 0.17, 0.45, 0.35), "muon": 10.0, "jet": 42.0},
    "qcd": {"muons": (0.70, 0.25, 0.04, 0.01), "jets": (0.15, 0.45, 0.25, 0.15), "muon": 5.5, "jet": 28.0},
    "data": {"muons": (0.06, 0.78, 0.11, 0.05), "jets": (0.10, 0.59, 0.21, 0.10), "muon": 8.0, "jet": 35.0},
}
"""How many muons (from none) and jets (from three) there are, and how hard."""
BLOCK = 10_000
"""Events that are generated together: which ones depends on nothing else, so any cut gives the same numbers."""
TYPES = {"i4": "int32_t", "i8": "int64_t", "f8": "double", "b1": "bool"}


class ToySource(Source):
    """Generates events of a process, `toy://dy`, `toy://ttbar`, `toy://qcd` or `toy://data`: always the same ones.

    Without datasets there is one, of `process`. Columns: `EventNumber`, `RunNumber`, `LumiBlock`, `EventWeight`,
    `Trigger`, `Muon_Px` … `Muon_Charge`, `Jet_Px` …, `MET_Px`, `MET_Py`, `MET`; simulation has `MCLepton_Px` and
    `MCLepton_Py` too. A process has its own events for every seed.
    """

    example: ClassVar[str] = """
    sources:
      events: {kind: toy, nevents: 10000, seed: 1729}
    """

    nevents: int = Field(1_000_000, ge=0)
    """Events of each dataset; `nevents` of a dataset takes fewer of them."""
    seed: int = Field(12345, ge=0)
    """Other seeds give other events."""
    process: ToyProcess = "dy"
    """The process, where no file says which."""
    dataset: str = "toy"
    """The name of the dataset, where there is none."""
    event_type: Literal["data", "mc"] | None = Field(None, validation_alias=AliasChoices("event_type", "eventtype"))
    """Its type; without it, `data` for the process of that name, else `mc`."""
    event_weight: float = Field(1.0, validation_alias=AliasChoices("event_weight", "weight"))
    """`EventWeight` of simulated events; that of data is 1."""

    @classmethod
    def own_dataset(cls, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """One of the process."""
        made = cls.model_validate(dict(settings))
        kind = made.event_type or ("data" if made.process == "data" else "mc")
        return {"name": made.dataset, "files": (f"toy://{made.process}",), "eventtype": kind}

    def stamp(self, url: str) -> str:
        """What is generated never changes."""
        return f"toy-1-{url}"

    def files_behind(self, url: str) -> tuple[str, ...]:  # noqa: ARG002  # whatever the process
        """None."""
        return ()

    def describe(self, url: str) -> FileInfo:
        """As many events as the settings say."""
        sample = self.sample(self._process(url, errors.BAD_INPUT))
        per_event = {name: one.nbytes / len(one) for name, one in sample.items()} | {"EventWeight": 8.0}
        columns = {
            name: ColumnInfo(_type(sample[name]) if name in sample else "double", max(1, int(size * self.nevents)))
            for name, size in per_event.items()
        }
        boundaries = tuple(dict.fromkeys([*range(0, self.nevents, self.block_size), self.nevents]))
        return FileInfo(url, 0, self.stamp(url), self.nevents, columns, boundaries)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Generate the blocks that hold these events."""
        process, size = self._process(url, errors.UNREADABLE_INPUT), self.block_size
        numbers = range(start // size, -(-stop // size)) if stop > start else range(0)
        blocks = [(number, self.block(process, number)) for number in numbers]
        sample = blocks[0][1] if blocks else self.sample(process)
        known = sorted({*sample, "EventWeight"})
        found: dict[str, Column] = {}
        for name in columns:
            meant = known_column(name, known, url)
            if meant == "EventWeight":
                found[name] = np.full(stop - start, 1.0 if process == "data" else self.event_weight)
                continue
            parts = [block[meant][max(0, start - n * size) : stop - n * size] for n, block in blocks]
            parts = parts or [sample[meant][:0]]
            joined = np.concatenate if isinstance(parts[0], np.ndarray) else ak.concatenate
            found[name] = parts[0] if len(parts) == 1 else joined(parts)
        return found

    @property
    def block_size(self) -> int:
        """Events that are generated together."""
        return BLOCK

    def block(self, process: str, number: int) -> dict[str, Column]:
        """The events of one block, without weights."""
        return _block(process, self.seed, number)

    def sample(self, process: str) -> dict[str, Column]:
        """Some events of the kind, to see what they are like."""
        return _block(process, self.seed, 0)

    def _process(self, url: str, kind: ErrorKind) -> str:
        process = url.removeprefix("toy://").strip("/").lower()
        if not url.startswith("toy://") or process not in PROCESSES:
            words = f"{url} is not a process of the toy source"
            known = [f"toy://{name}" for name in PROCESSES]
            raise errors.CenoteError(errors.unknown_name(kind, words, url, known, what="processes"))
        return process


def _type(column: Column) -> str:
    if isinstance(column, np.ndarray):
        return TYPES[column.dtype.str[1:]]
    return f"{'int64_t' if 'int' in str(column.type) else 'double'}[]"


@lru_cache(maxsize=4)
def _block(process: str, seed: int, number: int) -> dict[str, Column]:
    """The events of one block."""
    shape = PROCESSES[process]
    random = np.random.default_rng((seed, zlib.crc32(process.encode()), number))
    muons = random.choice(4, size=BLOCK, p=shape["muons"])
    jets = random.choice(np.arange(3, 7), size=BLOCK, p=shape["jets"])
    columns: dict[str, Any] = {
        "EventNumber": np.arange(number * BLOCK, (number + 1) * BLOCK),
        "RunNumber": random.integers(300_000, 310_000, BLOCK),
        "LumiBlock": random.integers(1, 2_001, BLOCK),
        "Trigger": random.random(BLOCK) < 0.98,
    }
    objects = (("Muon", muons, 4.0, shape["muon"], 32.0), ("Jet", jets, 8.0, shape["jet"], 100.0))
    sums = np.zeros((2, BLOCK))
    for name, counts, form, scale, longitudinal in objects:
        size = int(counts.sum())
        pt, phi = random.gamma(form, scale, size), random.uniform(-np.pi, np.pi, size)
        momentum = {"Px": pt * np.cos(phi), "Py": pt * np.sin(phi), "Pz": random.normal(0.0, longitudinal, size)}
        event = np.repeat(np.arange(BLOCK), counts)
        for axis, part in enumerate(("Px", "Py")):
            sums[axis] -= np.bincount(event, momentum[part], BLOCK)
        columns |= {f"{name}_{part}": ak.unflatten(values, counts) for part, values in momentum.items()}
    size = int(muons.sum())
    columns["Muon_Iso"] = ak.unflatten(random.beta(1.4, 28.0, size), muons)
    columns["Muon_Charge"] = ak.unflatten(random.choice(np.array([-1, 1]), size), muons)
    columns |= {"MET_Px": sums[0], "MET_Py": sums[1], "MET": np.hypot(*sums)}
    if process != "data":
        columns |= {"MCLepton_Px": columns["Muon_Px"], "MCLepton_Py": columns["Muon_Py"]}
    return columns
