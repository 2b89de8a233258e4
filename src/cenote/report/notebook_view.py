"""Show an analysis or a run inside a notebook: what it says; how it went, what it made, its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cenote.errors import Problem
from cenote.language.workflow import Workflow
from cenote.report.products_shown import data_uri
from cenote.report.render import render_part
from cenote.runs.summary import Summary

MOST_PICTURES = 12
MOST_FILES = 3


def run_as_html(folder: Path, summary: Summary | None) -> str:
    """Self-contained: pictures are part of it. A run in progress has no summary yet."""
    plots = [folder / plot for product in summary.products for plot in product.plots] if summary else []
    shown = [plot for plot in plots if plot.suffix == ".png"][:MOST_PICTURES]
    pictures = [(plot.stem, data_uri(plot.read_bytes(), plot.suffix)) for plot in shown if plot.is_file()]
    return render_part("notebook.html.j2", "run", folder=folder, summary=summary, pictures=pictures)


def analysis_as_html(file: Path, workflow: Workflow | None, problems: Sequence[Problem]) -> str:
    """What the file says, without a look at the data: datasets, stages, and what is wrong with them."""
    datasets = None
    if workflow is not None:
        datasets = [
            (dataset.name, dataset.eventtype or "", dataset.group or "", ", ".join(dataset.files[:MOST_FILES]))
            for dataset in workflow.datasets
        ]
    stages = [(stage.id, stage.op, ", ".join(stage.needs)) for stage in workflow.stages] if workflow else []
    return render_part("notebook.html.j2", "analysis", file=file, problems=problems, datasets=datasets, stages=stages)
