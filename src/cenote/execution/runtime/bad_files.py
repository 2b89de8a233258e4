"""Run a plan, and again without files that turn out to be bad, where their datasets do without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_summary
from cenote.execution.runs.summary import Summary
from cenote.execution.runtime.execute import RunOptions, add_failure, execute
from cenote.execution.runtime.loop import RunProgress
from cenote.planning.inputs.look import Unreadable
from cenote.planning.plan import Plan


def execute_without_bad_files(
    plan: Plan,
    out: Path,
    options: RunOptions,
    replan: Callable[[Unreadable], Plan],
    progress: RunProgress,
) -> RunFolder:
    """Run a plan; and again without the files that cannot be read, where their datasets do without them. What is done
    by then is not done again."""
    folder = execute(plan, out, options, progress)
    unreadable: dict[tuple[str, str], Problem] = {}
    while found := _not_read(plan, read_summary(folder), keep_going=options.keep_going):
        unreadable |= found
        try:
            plan = replan(unreadable)
        except CenoteError as problem:
            add_failure(folder, problem)
            raise
        execute(plan, out, replace(options, fresh=False, force=frozenset()), progress)
    return folder


def _not_read(plan: Plan, summary: Summary | None, *, keep_going: bool) -> dict[tuple[str, str], Problem]:
    """Files that could not be read, although their metadata was, and that their datasets do without: all their events
    are then left out, as if nobody had named them. Nothing after a run that failed for another reason."""
    skips = {dataset.name for dataset in plan.workflow.datasets if dataset.on_bad_file == "skip"}
    failures = summary.failures if summary is not None and summary.status in {"partial", "failed"} else ()
    found = {
        (one.dataset, one.file): Problem(errors.UNREADABLE_INPUT, one.message.partition("\n")[0])
        for one in failures
        if one.cause == "bad_input" and one.dataset in skips and one.dataset and one.file
    }
    others = [one for one in failures if (one.dataset, one.file) not in found or one.cause != "bad_input"]
    return found if keep_going or not others else {}
