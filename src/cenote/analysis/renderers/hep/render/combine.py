"""Write histograms with their variations as combine and TRExFitter read it: a ROOT file, and a card that names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cenote.analysis.products.histogram import write_root
from cenote.analysis.products.support.plain_names import plain_names
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import Floats
from cenote.analysis.renderers.support.templates import FitTemplates, Process, TemplateRenderer, TemplateSettings
from cenote.common import storage
from cenote.common.arrays import later
from cenote.common.values import dataclass

if TYPE_CHECKING:
    import hist
else:
    hist = later("hist")

OBSERVED = "data_obs"
"""What combine calls the data."""
PARTIAL = "PARTIAL_some_of_the_data_is_missing"


class CombineBlock(TemplateSettings):
    """Settings of `combine`."""

    auto_mc_stats: int = 10
    """The threshold of `autoMCStats` in the card: below so many effective events, bins get a Poisson term."""


class Combine(TemplateRenderer):
    """Writes a TH1D per process and variation, called `process`, `process_jesUp` and `process_jesDown`, and `data_obs`.

    A card beside it names the processes and variations for combine; TRExFitter takes the file as it is. A variation
    alone is mirrored, but not to less than nothing: a warning says where that was so. Without data, what is expected
    counts as observed; data that is weighted is a warning, too. A stage that draws several histograms together
    writes a channel for each, in a folder of the file: `region/process`.
    """

    example: ClassVar[str] = """
    render: {op: hep.render.combine, out: shapes, combine: {signals: [mc]}}
    """

    combine: CombineBlock = CombineBlock()
    """What is special to this renderer."""

    @property
    def block(self) -> TemplateSettings:
        """Its own settings."""
        return self.combine

    @property
    def endings(self) -> tuple[str, ...]:
        """The histograms, and the card."""
        return ("root", "txt")

    def write(self, channels: Mapping[str, FitTemplates], target: Path, context: DrawContext) -> list[Path]:
        """The histograms, those of several channels in a folder each, and the card; see `TemplateRenderer.write`."""
        file = target.with_name(f"{target.name}.root")
        file.parent.mkdir(parents=True, exist_ok=True)
        names = _Names.of(channels)
        pieces: dict[str, Any] = {}
        for channel, templates in channels.items():
            folder = f"{names.channels[channel]}/" if len(channels) > 1 else ""
            pieces |= {folder + name: piece for name, piece in _pieces(templates, names)}
            if context.partial:
                pieces[PARTIAL] = _histogram(templates.axis, templates.observed.values * 0)
        write_root(file, list(pieces.items()))
        card = _card(channels, names, file.name, partial=context.partial, threshold=self.combine.auto_mc_stats)
        return [file, storage.write_text(target.with_name(f"{target.name}.txt"), card)]


@dataclass(frozen=True)
class _Names:
    """What combine calls things: names of letters, digits and `_`, all different."""

    channels: Mapping[str, str]
    processes: Mapping[str, str]
    parameters: Mapping[str, str]

    @classmethod
    def of(cls, channels: Mapping[str, FitTemplates]) -> _Names:
        processes = [process for templates in channels.values() for process in templates.processes]
        shifted = [name for process in processes for name in process.shifted]
        return cls(_plain(channels), _plain(process.name for process in processes), _plain(shifted))

    @property
    def changed(self) -> Iterator[str]:
        """Comments of a card that tell the real names."""
        kinds = {"channel": self.channels, "process": self.processes, "parameter": self.parameters}
        for kind, names in kinds.items():
            yield from (f"# {own}: {kind} '{' '.join(name.split())}'" for name, own in names.items() if name != own)


def _plain(names: Iterable[str]) -> dict[str, str]:
    return {name: plain for (name,), plain in plain_names((name,) for name in names).items()}


def _pieces(templates: FitTemplates, names: _Names) -> list[tuple[str, Any]]:
    observed = templates.observed
    found = [(OBSERVED, _histogram(templates.axis, observed.values, observed.variances))]
    for process in templates.processes:
        name, counts = names.processes[process.name], process.counts
        found.append((name, _histogram(templates.axis, counts.values, counts.variances)))
        for parameter, shifted in process.shifted.items():
            own = f"{name}_{names.parameters[parameter]}"
            for side, one in (("Up", shifted.up), ("Down", shifted.down)):
                found.append((f"{own}{side}", _histogram(templates.axis, one.values, one.variances)))
    return found


def _histogram(axis: Any, values: Floats, variances: Floats | None = None) -> Any:  # Any: hist publishes no types
    """With these contents, and nothing beyond the bins."""
    edges = np.asarray(axis.edges, dtype=np.float64)
    plain = type(axis) is hist.axis.Regular
    bins = hist.axis.Regular(len(edges) - 1, edges[0], edges[-1]) if plain else hist.axis.Variable(edges)
    made: Any = hist.Hist(bins, storage=hist.storage.Weight())
    made.view()["value"] = values
    made.view()["variance"] = values * 0 if variances is None else variances
    return made


def _card(channels: Mapping[str, FitTemplates], names: _Names, file: str, *, partial: bool, threshold: int) -> str:
    """Rates of -1 are taken from the histograms."""
    numbers = _numbers([process for templates in channels.values() for process in templates.processes])
    columns = [
        (names.channels[channel], process)
        for channel, templates in channels.items()
        for process in sorted(templates.processes, key=lambda process: numbers[process.name])
    ]
    parameters = dict.fromkeys(name for _, process in columns for name in process.shifted)
    rows = [
        ["bin", "", *(channel for channel, _ in columns)],
        ["process", "", *(names.processes[process.name] for _, process in columns)],
        ["process", "", *(str(numbers[process.name]) for _, process in columns)],
        ["rate", "", *("-1" for _ in columns)],
        *(
            [names.parameters[name], "shape", *("1" if name in process.shifted else "-" for _, process in columns)]
            for name in parameters
        ),
    ]
    where = "$CHANNEL/" if len(channels) > 1 else ""
    lines = [
        *(["# partial: some of the data is missing"] if partial else []),
        *names.changed,
        "imax * number of channels",
        "jmax * number of processes minus 1",
        "kmax * number of nuisance parameters",
        f"shapes * * {file} {where}$PROCESS {where}$PROCESS_$SYSTEMATIC",
        f"bin {' '.join(names.channels.values())}",
        f"observation {' '.join('-1' for _ in channels)}",
        *_in_columns(rows),
        *(f"{channel} autoMCStats {threshold}" for channel in names.channels.values()),
    ]
    return "\n".join(lines) + "\n"


def _numbers(processes: Sequence[Process]) -> dict[str, int]:
    """What combine calls a process in all channels: signals count down from 0, the others up from 1."""
    signals = list(dict.fromkeys(process.name for process in processes if process.is_signal))
    others = dict.fromkeys(process.name for process in processes if not process.is_signal)
    found = {name: number - len(signals) + 1 for number, name in enumerate(signals)}
    return found | {name: number for number, name in enumerate(others, start=1)}


def _in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
