"""Write histograms with their variations as a workspace of pyhf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import Floats
from cenote.analysis.renderers.support.templates import FitTemplates, Process, TemplateRenderer, TemplateSettings
from cenote.common import storage

VERSION = "1.0.0"
"""Of the format of workspaces."""
Modifier = dict[str, Any]
"""As pyhf has it: numbers, lists or nothing under `data`."""


class PyhfBlock(TemplateSettings):
    """Settings of `pyhf`."""

    poi: str = "mu"
    """The parameter of interest: it scales the signals."""
    staterror: bool = True
    """The uncertainty of the simulated statistics, one parameter per bin."""
    normalisations: dict[str, float | dict[str, float]] = Field(default_factory=dict)
    """Parameter → relative uncertainty of all processes, or of some by name: `{lumi: 0.025, xsec: {ttbar: 0.05}}`."""


class Pyhf(TemplateRenderer):
    """Writes a workspace of pyhf: a sample for each group of datasets, a modifier for each variation.

    `jes_up` and `jes_down` become one `histosys` called `jes`. A variation alone is mirrored, but not to less than
    nothing: a warning says where that was so. Without data, what is expected counts as observed; data that is weighted
    is a warning, too. A stage that draws several histograms together writes a channel for each.
    """

    example: ClassVar[str] = """
    render: {op: hep.render.pyhf, out: workspace, pyhf: {signals: [mc], normalisations: {lumi: 0.025}}}
    """

    pyhf: PyhfBlock = PyhfBlock()
    """What is special to this renderer."""

    @property
    def block(self) -> TemplateSettings:
        """Its own settings."""
        return self.pyhf

    @property
    def endings(self) -> tuple[str, ...]:
        """A workspace is JSON."""
        return ("json",)

    def write(self, channels: Mapping[str, FitTemplates], target: Path, context: DrawContext) -> list[Path]:
        """One workspace; see `TemplateRenderer.write`."""
        measured = "partial, some of the data is missing" if context.partial else "measurement"
        workspace = {
            "channels": [
                {"name": channel, "samples": [self._sample(process, channel) for process in templates.processes]}
                for channel, templates in channels.items()
            ],
            "observations": [
                {"name": channel, "data": _plain(templates.observed.values)} for channel, templates in channels.items()
            ],
            "measurements": [{"name": measured, "config": {"poi": self.pyhf.poi, "parameters": []}}],
            "version": VERSION,
        }
        return [storage.write_text(target.with_name(f"{target.name}.json"), json.dumps(workspace, indent=1) + "\n")]

    def _sample(self, process: Process, channel: str) -> dict[str, Any]:
        modifiers: list[Modifier] = [
            {
                "name": name,
                "type": "histosys",
                "data": {"hi_data": _plain(one.up.values), "lo_data": _plain(one.down.values)},
            }
            for name, one in process.shifted.items()
        ]
        for name, uncertainty in self.pyhf.normalisations.items():
            size = uncertainty.get(process.name) if isinstance(uncertainty, Mapping) else uncertainty
            if size is not None:
                modifiers.append({"name": name, "type": "normsys", "data": {"hi": 1 + size, "lo": 1 - size}})
        if self.pyhf.staterror:
            name = f"staterror_{channel}"
            modifiers.append({"name": name, "type": "staterror", "data": _plain(np.sqrt(process.counts.variances))})
        if process.is_signal:
            modifiers.append({"name": self.pyhf.poi, "type": "normfactor", "data": None})
        return {"name": process.name, "data": _plain(process.counts.values), "modifiers": modifiers}


def _plain(values: Floats) -> list[float]:
    found: list[float] = values.tolist()
    return found
