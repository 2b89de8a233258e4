"""A task of a service, as programs see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cenote.client.line import Line
from cenote.client.pool_handle import PoolHandle
from cenote.client.records import QueuedTaskRecord, TaskInstance, TaskVerb
from cenote.client.task_flows import TaskFlows


class TaskHandle(TaskFlows):
    """A command, run by so many instances on the workers of a pool."""

    def __init__(self, line: Line, *, name: str, pool: PoolHandle | str | None, instances: int) -> None:
        super().__init__(name=name, pool=pool, instances=instances)
        self._line = line

    @classmethod
    def of(cls, line: Line, record: QueuedTaskRecord) -> Self:
        """One that is there."""
        return cls(line, name=record.name, pool=record.pool, instances=record.instances).known_as(record)

    @property
    def record(self) -> QueuedTaskRecord:
        """How it is now."""
        return self._line.carry_out(self.record_flow())

    @property
    def state(self) -> str:
        """`Submitted`, `PartiallyExecuting`, `FullyExecuting`, `Success`, `Failure`, `Cancelled`, `Paused`."""
        return "" if self._record is None else str(self.record.state)

    @property
    def why(self) -> Sequence[str]:
        """Why it waits and what is ahead of it, or why it failed."""
        return self.record.why

    @property
    def instances(self) -> Sequence[TaskInstance]:
        """Every instance, by its number."""
        return self._line.get(f"/tasks/{self.uuid}/instances", tuple[TaskInstance, ...])

    def submit(self) -> Self:
        """Put it into the queue, and go on."""
        self._line.carry_out(self.submit_flow())
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is over; returns whether it succeeded. Raises TimeoutError when that takes longer."""
        return self._line.carry_out(self.wait_flow(timeout))

    def run(self, timeout: float | None = None, *, quiet: bool = False) -> bool:
        """Submit it and wait for its end, with its progress and its output on the terminal; returns whether it
        succeeded."""
        return self._line.carry_out(self.run_flow(timeout, quiet=quiet))

    def stdout(self, instance: int | None = None) -> str:
        """What its instances wrote so far, in the order in which it came; or what one of them wrote."""
        return self._line.carry_out(self.output_flow("stdout", instance))

    def stderr(self, instance: int | None = None) -> str:
        """The same of what they wrote to their standard error."""
        return self._line.carry_out(self.output_flow("stderr", instance))

    def download_results(self, folder: str | Path) -> list[Path]:
        """Copy the files that were collected so far; returns where they are."""
        return self._line.carry_out(self.download_flow(folder))

    def cancel(self) -> None:
        """Stop what runs, and begin nothing more; not an error where it is over."""
        self.change("cancel")

    def change(self, verb: TaskVerb, **given: str | int) -> None:
        """`cancel`, `pause`, `resume`; `move` to a `pool`; set its `priority`; put it `ahead` `of` another task."""
        self._line.carry_out(self.change_flow(verb, **given))

    def __enter__(self) -> Self:
        return self.submit()

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self._line.carry_out(self.leave_flow())
