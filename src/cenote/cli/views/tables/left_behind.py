"""Show what runs left behind: run by run, with its jobs by pool, system and state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from rich.table import Table

from cenote.cli.console import output
from cenote.cli.views.problems import show_problems
from cenote.common import storage
from cenote.common.text import format_estimate, join_words, plural
from cenote.execution.runs.driver.left_behind import DriverStatus, LeftBehind, Leftover
from cenote.execution.runs.folder import RunFolder
from cenote.language.plugins.registry import starts_here


def show_left_behind(found: LeftBehind, chosen: Sequence[Leftover]) -> None:
    """Everything that was found; what is left alone says why. Batch systems that are silent are told of."""
    console = output()
    show_problems(list(found.silent.values()))
    for _, of_run in groupby(found.jobs, key=lambda one: (one.job.run, one.driver)):
        jobs = list(of_run)
        console.print(_heading(jobs[0], left_alone=jobs[0] not in chosen), soft_wrap=True)
        console.print(_rows(jobs, now=time.time()))
        console.print()
    for folder, files in groupby(found.files, key=_run_folder):
        console.print(f"{plural(len(list(files)), 'half-written file')} in {shown(folder)}", soft_wrap=True)
    for folder in found.scratch:
        console.print(f"{folder}: scratch folder of a worker that was killed", soft_wrap=True)
    if not (found.jobs or found.files or found.scratch):
        console.print("nothing was left behind" + (" that can be seen" if found.silent else ""))


def in_words(jobs: Sequence[Leftover], found: LeftBehind) -> str:
    """`4 jobs, 2 processes and 1 half-written file`."""
    here = sum(starts_here(one.system) for one in jobs)
    counted = [
        (len(jobs) - here, "job", "jobs"),
        (here, "process", "processes"),
        (len(found.files), "half-written file", "half-written files"),
        (len(found.scratch), "scratch folder", "scratch folders"),
    ]
    return join_words([plural(number, one, many) for number, one, many in counted if number]) or "nothing"


def driver_of(one: Leftover) -> str:
    """Who drives its run, as a part of a sentence."""
    home = one.job.home
    return f": process {home.process} on {home.host} drives it" if home and home.process else ""


def shown(folder: Path) -> str:
    """As a person who works here would call it."""
    for above, short in ((Path.cwd(), ""), (storage.expanded("~"), "~/")):
        if folder != above and folder.is_relative_to(above):
            return f"{short}{folder.relative_to(above)}"
    return str(folder)


def _heading(one: Leftover, *, left_alone: bool) -> str:
    home = one.job.home
    place = f" in {shown(home.folder)}" if home else ""
    alone = "; kept" if left_alone else ""
    match one.driver:
        case DriverStatus.OVER:
            return f"run {one.job.run}{place}: its driver is no longer running"
        case DriverStatus.DRIVEN:
            return f"run {one.job.run}{place} is in progress{driver_of(one)}{alone}"
        case DriverStatus.UNKNOWN:
            of = f" of {home.host}" if home else ""
            how = f"; kept unless `--run {one.job.run}` names it" if left_alone else ""
            return f"run {one.job.run}{of}{place}: cannot tell from this machine whether it is still running{how}"


def _rows(jobs: Iterable[Leftover], *, now: float) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("  pool", "system", "jobs", "state", "since"):
        table.add_column(column, justify="right" if column == "jobs" else "left", no_wrap=column != "  pool")
    alike = sorted(jobs, key=_kind)
    for (system, pool, state), of_kind in groupby(alike, key=_kind):
        group = list(of_kind)
        since = [one.job.since for one in group if one.job.since is not None]
        age = f"{format_estimate(max(1.0, now - min(since)))} ago" if since else ""
        table.add_row(f"  {pool}", system, f"{len(group):,}", state, age)
    return table


def _kind(one: Leftover) -> tuple[str, str, str]:
    return one.system, one.job.pool, one.job.native


def _run_folder(file: Path) -> Path:
    """Of the run that a half-written file belongs to."""
    above = [parent for parent in file.parents if RunFolder(parent).holds_run]
    return above[0] if above else file.parent
