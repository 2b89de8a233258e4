"""Write a histogram with its variations as combine and TRExFitter read it: a ROOT file, and a card that names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cenote import storage
from cenote.lean_imports import later
from cenote.products.histogram import write_root
from cenote.renderers.interface import DrawContext
from cenote.renderers.support.bins import Floats
from cenote.renderers.support.templates import FitTemplates, TemplateRenderer, TemplateSettings, plain_names

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
    alone is mirrored. Without data, what is expected counts as observed.
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

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write the histograms and the card; see `Renderer.draw`."""
        templates = self.templates(product, context)
        names = plain_names([process.name for process in templates.processes])
        file = target.with_name(f"{target.name}.root")
        file.parent.mkdir(parents=True, exist_ok=True)
        pieces = dict(_pieces(templates, names))
        if context.partial:
            pieces[PARTIAL] = _histogram(templates.axis, templates.observed.values * 0)
        write_root(file, list(pieces.items()))
        card = _card(templates, names, file.name, context, self.combine.auto_mc_stats)
        return [file, storage.write_text(target.with_name(f"{target.name}.txt"), card)]


def _pieces(templates: FitTemplates, names: dict[str, str]) -> list[tuple[str, Any]]:
    observed = templates.observed
    found = [(OBSERVED, _histogram(templates.axis, observed.values, observed.variances))]
    for process in templates.processes:
        name, counts = names[process.name], process.counts
        found.append((name, _histogram(templates.axis, counts.values, counts.variances)))
        for parameter, shifted in process.shifted.items():
            for side, one in (("Up", shifted.up), ("Down", shifted.down)):
                found.append((f"{name}_{parameter}{side}", _histogram(templates.axis, one.values, one.variances)))
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


def _card(templates: FitTemplates, names: dict[str, str], file: str, context: DrawContext, threshold: int) -> str:
    """Rates of -1 are taken from the histograms."""
    channel = plain_names([context.stage])[context.stage]
    processes = sorted(templates.processes, key=lambda process: not process.is_signal)
    signals = sum(process.is_signal for process in processes)
    parameters = list(dict.fromkeys(name for process in processes for name in process.shifted))
    rows = [
        ["bin", "", *(channel for _ in processes)],
        ["process", "", *(names[process.name] for process in processes)],
        ["process", "", *(str(number - signals + 1) for number in range(len(processes)))],
        ["rate", "", *("-1" for _ in processes)],
        *([name, "shape", *("1" if name in process.shifted else "-" for process in processes)] for name in parameters),
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    table = [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines = [
        *(["# partial: some of the data is missing"] if context.partial else []),
        "imax * number of channels",
        "jmax * number of processes minus 1",
        "kmax * number of nuisance parameters",
        f"shapes * * {file} $PROCESS $PROCESS_$SYSTEMATIC",
        f"bin {channel}",
        "observation -1",
        *table,
        f"{channel} autoMCStats {threshold}",
    ]
    return "\n".join(lines) + "\n"
