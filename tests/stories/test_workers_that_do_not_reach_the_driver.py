"""Stories of workers that start and find no way to the driver: they are tried again, later each time."""

from builders.plans import a_plan, a_pool
from builders.stories import Story, failed, joined, later, lost, requested, started, taken
from cenote.engine.messages import AnyCommand, FinishRun, StartWorkers
from cenote.engine.task_classes import EngineOptions
from cenote.language.execution import RunLimits

NO_WAY = "it never joined: the node does not reach the driver (exit code 97)"
TO_TRY = 8.0
"""Seconds until a worker gives up."""


class CutOff:
    """A pool of two whose workers do not come through."""

    def __init__(self, *, joined_before: bool, limits: RunLimits = RunLimits()) -> None:  # noqa: B008 (frozen)
        plan = a_plan(partitions=6, pools=[a_pool("default", workers=2)])
        self.story = Story(plan, EngineOptions(manages_workers=True, window_per_slot=1.0, limits=limits))
        self.now, self.named = 1.0, 2
        self.story.after(started(), requested("default-1"), requested("default-2"))
        self.there = ["default-1", "default-2"]
        if joined_before:
            self.story.after(*[joined(worker, at=1.0) for worker in self.there])
            self.story.after(taken(0, "default-1", attempt=1), taken(1, "default-2", attempt=1))
            self.wait(1.0, self._lose("silent"))
            self.story.after(failed(0, "lost", worker="default-1", attempt=1, at=self.now))
            self.story.after(failed(1, "lost", worker="default-2", attempt=1, at=self.now))

    def _lose(self, cause: str) -> list[AnyCommand]:
        gone, self.there = self.there, []
        return [
            one
            for worker in gone
            for one in self.story.after(lost(worker, cause=cause, reason=NO_WAY, at=self.now))  # type: ignore[arg-type]
        ]

    def wait(self, seconds: float, commands: list[AnyCommand] | None = None) -> bool:
        """So long, with the workers that are asked for; whether the run is over."""
        commands = list(commands or [])
        until = self.now + seconds
        while self.now < until:
            self.now += 1.0
            commands += self.story.after(later(self.now))
            for command in [one for one in commands if isinstance(one, StartWorkers)]:
                self.there += self._requested(command.count)
            if any(isinstance(one, FinishRun) for one in commands):
                return True
            commands = []
            if self.there and self.now - self.asked >= TO_TRY:
                commands = self._lose("unreachable")
        return False

    def _requested(self, count: int) -> list[str]:
        self.asked = self.now
        names = [f"default-{self.named + number + 1}" for number in range(count)]
        self.named += count
        self.story.after(*[requested(name, at=self.now) for name in names])
        return names


def test_a_cut_of_two_minutes_does_not_end_the_run_and_costs_few_workers() -> None:
    cut = CutOff(joined_before=True)
    assert not cut.wait(120.0)
    assert cut.named <= 2 + 4 * 2, "tried at once, and after 10, 20 and 40 seconds"
    while not cut.there:
        assert not cut.wait(1.0)
    commands = cut.story.after(joined(cut.there[0], at=cut.now))
    assert [one for one in commands if hasattr(one, "task")], "work goes on"


def test_a_way_that_never_was_ends_the_run_once_it_was_looked_for_and_says_why() -> None:
    cut = CutOff(joined_before=False)
    cut.asked = 1.0
    assert not cut.wait(30.0)
    assert cut.wait(300.0)
    message = cut.story.engine.failures[0].message
    assert "its workers have not reached the driver for" in message
    assert NO_WAY in message


def test_no_way_for_very_long_ends_the_run_where_there_was_one_before_too() -> None:
    assert CutOff(joined_before=True).wait(900.0)


def test_who_waits_longer_for_workers_waits_longer_for_a_way() -> None:
    assert not CutOff(joined_before=True, limits=RunLimits(no_worker_for=3600)).wait(900.0)
