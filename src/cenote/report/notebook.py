"""Show an analysis, a run, and how it goes inside a notebook."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cenote.common.errors import Problem
from cenote.common.text import plural
from cenote.common.units import format_count, format_seconds
from cenote.execution.packing.archive import PackingStep
from cenote.execution.runs.explain import waiting_in_words
from cenote.execution.runs.summary import Summary
from cenote.execution.runs.view.view import RunView
from cenote.language.workflow import Workflow
from cenote.report.products_shown import data_uri
from cenote.report.render import render_part

COLOURS = {"succeeded": "#2e8b57", "partial": "#c98a1b", "failed": "#c0392b", "cancelled": "#c98a1b"}
WORKING = "#2a93a8"
MOST_LINES = 3


def notebook_progress(title: str) -> NotebookProgress | None:
    """A listener for this run where a notebook shows what cells display; None in scripts and at a prompt."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None  # Any: whatever IPython is running
    return NotebookProgress(title) if shell is not None and getattr(shell, "kernel", None) is not None else None


class NotebookProgress:
    """A listener for `run(..., listen=...)` that draws one bar and draws it anew."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown: Any = None  # IPython's handle of what is displayed
        self._ended = False

    def __call__(self, view: RunView) -> None:
        """The state of the run."""
        if self._ended or view.started is None:
            return
        self._ended = view.finished
        self._draw(progress_as_html(view, self._title), f"{self._title}: {view.status}, {share_in_words(view)}")

    def planning(self, done: int, files: int) -> None:
        """Before the first task."""
        words = f"reading input metadata: {done:,} of {plural(files, 'file')}"
        self._draw(_bar(self._title, words, done / max(1, files), WORKING), f"{self._title}: {words}")

    def packing(self, step: PackingStep) -> None:
        """While an environment is packed."""
        share = step.done / step.total if step.total else 0.0
        self._draw(_bar(self._title, step.what, share, WORKING), f"{self._title}: {step.what}")

    def _draw(self, html: str, text: str) -> None:
        from IPython.display import display  # there: a notebook runs this

        bundle = {"text/html": html, "text/plain": text}
        if self._shown is None:
            self._shown = display(bundle, raw=True, display_id=True)
        else:
            self._shown.update(bundle, raw=True)


def progress_as_html(view: RunView, title: str) -> str:
    """A bar, how far and how fast, and what is waited for."""
    tasks = view.tasks
    words = [share_in_words(view), format_seconds(view.seconds)]
    if view.saved is not None and not view.finished:
        words.append(f"saving and drawing: {view.saved[0]:,} of {view.saved[1]:,} products")
    elif not view.finished:
        words += [f"about {format_seconds(view.time_left)} left"] if view.time_left else []
        words += [f"{tasks.running:,} running"]
    if tasks.failed:
        words.append(f"{tasks.failed:,} failed")
    if view.events_read and view.seconds:
        words.append(f"{format_count(view.events_read / view.seconds)} events/s")
    head = view.status if view.status != "running" else ""
    waiting = waiting_in_words(view)[:MOST_LINES]
    colour = COLOURS.get(view.status, WORKING)
    share = 1.0 if view.status == "succeeded" else tasks.done / max(1, tasks.total)
    return _bar(f"{title} {head}".strip(), ", ".join(words), share, colour, waiting)


def share_in_words(view: RunView) -> str:
    """`40 of 128 tasks`."""
    tasks = view.tasks
    return f"{tasks.done:,} of {plural(tasks.total, 'task')}"


def _bar(title: str, words: str, share: float, colour: str, waiting: Sequence[str] = ()) -> str:
    values = {"title": title, "words": words, "share": share, "colour": colour, "waiting": waiting}
    return render_part("notebook.html.j2", "progress", **values)


# Show an analysis or a run inside a notebook: what it says; how it went, what it made, its pictures.


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
