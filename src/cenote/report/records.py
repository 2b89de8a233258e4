"""Read the records of a run, as far as they are whole."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from cenote.common import errors
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_if_whole
from cenote.execution.runs.journal import read_events
from cenote.execution.runs.provenance import Provenance
from cenote.execution.runs.summary import Summary
from cenote.execution.runs.view.view import RunView
from cenote.planning.record import PlanRecord


class RunRecords(NamedTuple):
    """What was planned, what became of it, and where it comes from."""

    plan: PlanRecord
    summary: Summary
    provenance: Provenance


def read_all(run: RunFolder) -> RunRecords:
    """A record that is missing or damaged costs what it would have said. Raises where there is no run at all."""
    read = read_if_whole(run.plan, PlanRecord)
    ended = read_if_whole(run.summary, Summary)
    if not (run.holds_run or read or ended):
        raise errors.error(
            errors.NO_RUN,
            f"{run.path} holds no run: it has neither {run.summary.name} nor {run.journal.name}",
            hint="name the folder that was given to `cenote run --out`",
        )
    plan = read or PlanRecord(workflow="")
    if (summary := ended) is None:  # what its journal says
        view = RunView.of(plan, read_events(run.path) if run.holds_run else ())
        summary = msgspec.structs.replace(view.summary(), status="unfinished")
    return RunRecords(plan, summary, read_if_whole(run.provenance, Provenance) or Provenance())
