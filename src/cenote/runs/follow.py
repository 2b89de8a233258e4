"""Follow a run through its folder, while it is in progress or long after, without disturbing it."""

from __future__ import annotations

import time
from pathlib import Path

from cenote.engine.messages import Tick
from cenote.plan.probe_cache import ProbeHistory, as_seen_by
from cenote.plan.probe_result import Probed
from cenote.plan.record import PlanRecord
from cenote.runs.folder import RunFolder, is_locked
from cenote.runs.journal import JournalReader
from cenote.runs.read_records import damaged, read_plan
from cenote.runs.view import RunView


class FollowedRun:
    """A run in a folder; `catch_up` reads what was written since the last time, and only that."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self._begin()

    def _begin(self) -> None:
        self._journal = JournalReader(self.folder.path)
        plan = read_plan(self.folder)
        self.view = RunView(plan, _probes(plan))

    def catch_up(self) -> RunView:
        """The view after everything that stands in the journal by now."""
        if self._journal.was_replaced:
            self._begin()
        for event in self._journal.news():
            self.view.apply(event)
        if self.view.run is None and self._journal.damage is not None:
            raise damaged(self._journal.path, self._journal.damage)
        return self.view

    def catch_up_to_now(self) -> RunView:
        """The same, with the time that has passed: a run that waits writes nothing."""
        view = self.catch_up()
        if self.driven:
            view.apply(Tick(at=time.time()))
        return view

    @property
    def status(self) -> str:
        """The view's own word, or `interrupted` for a run that has neither an end nor a driver."""
        return self.view.status if self.view.finished or self.driven else "interrupted"

    @property
    def driven(self) -> bool:
        """Whether a process is driving the run now; without one, a run that has no end was cut off."""
        return is_locked(self.folder.path)


def _probes(plan: PlanRecord) -> dict[str, Probed]:
    """Pool → its last probe, which may be younger than the run."""
    known = ProbeHistory().of(pool.probe.key for pool in plan.pools if pool.probe.key)
    return {
        pool.name: as_seen_by(known[pool.probe.key], plan.workflow) for pool in plan.pools if pool.probe.key in known
    }
