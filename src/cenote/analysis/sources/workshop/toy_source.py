"""The source `workshop.toy_source`: `toy` with the very events that FAST-HEP's workshop generates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import FileInfo
from cenote.analysis.sources.toy import PROCESSES, ToySource
from cenote.common.arrays import ak

SAMPLE = 1_000
"""Events that show what a column is like."""


class WorkshopToySource(ToySource):
    """Like `toy`, with the events that FAST-HEP's workshop has for the same `nevents` and `seed`, number by number.

    They are generated all at once, wherever a part of them is read: for many millions `toy` is the better one.
    """

    example: ClassVar[str] = """
    sources:
      events: {kind: workshop.toy_source, nevents: 1000, seed: 42}
    """

    def file_of(self, url: str, nevents: int | None) -> str:
        """`nevents` of a dataset says how many are generated: then all of them are others."""
        return url if nevents is None else f"{url}?nevents={nevents}"

    def stamp(self, url: str) -> str:
        """What is generated never changes."""
        return f"workshop-toy-1-{url}"

    def describe(self, url: str) -> FileInfo:
        """As many events as the dataset says, or else the settings."""
        meant, process = self._meant(url)
        return replace(super(WorkshopToySource, meant).describe(process), url=url, stamp=self.stamp(url))

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Generate all and take these."""
        meant, process = self._meant(url)
        return super(WorkshopToySource, meant).read(process, columns, start, stop)

    def _meant(self, url: str) -> tuple[WorkshopToySource, str]:
        """The source with the number of events that the file says, and the file without it."""
        process, _, nevents = url.partition("?nevents=")
        return self.model_copy(update={"nevents": int(nevents)}) if nevents.isdigit() else self, process

    @property
    def block_size(self) -> int:
        """All of them."""
        return max(1, self.nevents)

    def block(self, process: str, number: int) -> dict[str, Column]:  # noqa: ARG002  # there is one
        """All events."""
        return _events(process, self.seed, self.nevents)

    def sample(self, process: str) -> dict[str, Column]:
        """A few: fewer events than asked for are other ones, of the same kind."""
        return _events(process, self.seed, min(SAMPLE, self.block_size))


@lru_cache(maxsize=2)
def _events(process: str, seed: int, count: int) -> dict[str, Column]:
    """The order in which numbers are drawn decides what they are: it is that of the workshop."""
    shape = PROCESSES[process]
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    totals: dict[str, list[Any]] = {"Px": [], "Py": []}
    objects = (("Muon", 0, "muons", 4.0, "muon", 32.0), ("Jet", 3, "jets", 8.0, "jet", 100.0))
    for name, fewest, numbers, form, scale, longitudinal in objects:
        counts = random.choice(np.arange(fewest, fewest + 4), size=count, p=shape[numbers])
        size = int(counts.sum())
        pt, phi = random.gamma(form, shape[scale], size), random.uniform(-np.pi, np.pi, size)
        momentum = {"Px": pt * np.cos(phi), "Py": pt * np.sin(phi), "Pz": random.normal(0.0, longitudinal, size)}
        columns |= {f"{name}_{part}": ak.unflatten(values, counts) for part, values in momentum.items()}
        for part, sums in totals.items():
            sums.append(ak.to_numpy(ak.sum(columns[f"{name}_{part}"], axis=1)))
        if name == "Muon":
            columns["Muon_Iso"] = ak.unflatten(random.beta(1.4, 28.0, size), counts)
            columns["Muon_Charge"] = ak.unflatten(random.choice([-1, 1], size=size), counts)
    missing = {part: -(muons + jets) for part, (muons, jets) in totals.items()}
    columns |= {f"MET_{part}": values for part, values in missing.items()}
    columns["MET"] = np.sqrt(missing["Px"] ** 2 + missing["Py"] ** 2)
    columns["EventNumber"] = np.arange(count, dtype=np.int64)
    columns["RunNumber"] = random.integers(300_000, 310_000, size=count, dtype=np.int32)
    columns["LumiBlock"] = random.integers(1, 2_001, size=count, dtype=np.int32)
    columns["Trigger"] = random.random(count) < 0.98
    if process != "data":
        columns |= {"MCLepton_Px": columns["Muon_Px"], "MCLepton_Py": columns["Muon_Py"]}
    return columns
