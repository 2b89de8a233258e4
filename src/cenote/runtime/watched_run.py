"""Keep the view of a run up to date while it is driven, and show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cenote.engine.messages import AnyEvent, Tick
from cenote.plan.plan import Plan
from cenote.plan.record import PlanRecord
from cenote.runs.counting.tasks_seen import TasksSeen
from cenote.runs.folder import Pulse
from cenote.runs.view import RunView

RunListener = Callable[[RunView], None]
Hearer = Callable[[Plan, AnyEvent], None]
"""Hears of every event of the run, once it is written down."""
_BETWEEN_TASKS = 0.2
"""Seconds that a run must be at rest before it is shown so: one task has ended, the next is about to start."""


class WatchedRun:
    """Keeps the view of the run up to date and shows it, not more often than a person can read."""

    def __init__(
        self,
        plan: Plan,
        record: PlanRecord,
        pulse: Pulse,
        clock: Callable[[], float],
        listen: RunListener | None,
        hear: Hearer | None,
    ) -> None:
        self._plan, self._hear = plan, hear
        self.view, self.memory = RunView(record, plan.probes), TasksSeen(plan)
        self._listen, self._clock, self._shown = listen, clock, 0.0
        self._shown_at_rest = True
        self._at_rest_since: float | None = 0.0
        """None while a task runs."""
        self._pulse = pulse

    def __call__(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.view.apply(event)
            self.memory.take(event)
            if self._hear is not None:
                self._hear(self._plan, event)
        self._pulse()
        now = self._clock()
        at_work = self.view.at_work
        if at_work or self._at_rest_since is None:
            self._at_rest_since = None if at_work else now
        began = at_work and self._shown_at_rest  # the next news may be a long task away
        rested = self._at_rest_since is not None and now - self._at_rest_since >= _BETWEEN_TASKS
        saves = self.view.saved is not None
        if began or (now - self._shown > 0.1 and (at_work or rested or saves)):
            self._shown = now
            self.show()

    def saved(self, done: int, products: int) -> None:
        """So many products are saved, of how many."""
        begins = self.view.saved is None
        self.view.saved = (done, products)
        self([Tick(at=self._clock())])
        if begins:  # drawing the first product may take long
            self.show()

    def show(self) -> None:
        """Now."""
        self._shown_at_rest = not self.view.at_work
        if self._listen is not None:
            self._listen(self.view)
