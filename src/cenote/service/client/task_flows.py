"""Define a task of a service as programs see it, as flows: the same for those that wait and those that await."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from cenote.common import errors
from cenote.common.text import did_you_mean, plural
from cenote.common.units import parse_bytes
from cenote.language.execution import AMOUNTS, Amounts
from cenote.service.client.asking import (
    POLL_SECONDS,
    Ask,
    Flow,
    ShownOutput,
    asked,
    create,
    get,
    named,
    post,
    send_files,
)
from cenote.service.client.definitions import InstanceState, TaskState
from cenote.service.client.line import Line
from cenote.service.client.pool_flows import PoolFlows
from cenote.service.client.pool_handle import PoolHandle
from cenote.service.client.queue_view import tasks_table
from cenote.service.client.records import NewTask, QueuedTaskRecord, TaskInstance, TaskVerb

_LOOK_EVERY = 1.0
"""Seconds between two looks at the output of a task."""
_AFTER = "give tasks: what create_task() or conn.task(NAME) returned"
COMMANDS = ("CMD", "DOCKER_CMD")
"""Constants that hold the command, where `command` does not."""
Value = TypeVar("Value")


class _Term(Generic[Value]):
    """An attribute of a task that is one of its terms, of the same name unless another is given."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __set_name__(self, owner: type[TaskFlows], name: str) -> None:
        self._name = self._name or name

    def __get__(self, task: TaskFlows | None, owner: type[TaskFlows]) -> Value:
        return self if task is None else getattr(task.terms, self._name)  # type: ignore[return-value]  # of the class: as properties

    def __set__(self, task: TaskFlows, value: Value) -> None:
        task.terms = msgspec.structs.replace(task.terms, **{self._name: value})


class TaskFlows:
    """A command, run by so many instances on the workers of a pool."""

    name = _Term[str]()
    instancecount = _Term[int]("instances")
    command = _Term[str]()
    """For a shell; or a constant `CMD` or `DOCKER_CMD`."""
    constants = _Term[dict[str, str]]()
    """Environment variables of every instance, besides `INSTANCE_ID` and `INSTANCE_COUNT`."""
    results_period = _Term[int | None]()
    """Seconds between two collections while instances run."""
    priority = _Term[int]()
    preemptible = _Term[bool]()
    retries = _Term[int]()
    timeout = _Term[int | None]()
    """Seconds that an instance may take."""
    queue_timeout = _Term[int | None]()
    """Seconds that it may wait without any slot."""
    group = _Term[str]()

    def __init__(self, *, name: str, pool: PoolFlows | str | None, instances: int) -> None:
        self.terms = NewTask(name=name, instances=instances)
        """All that is asked for in words of the service; what is a handle, a file or a text here comes when it is
        submitted."""
        self._pool = pool
        self._record: QueuedTaskRecord | None = None
        self._shown = ShownOutput()
        self._told: set[str] = set()
        """Lines about its numbers."""
        self._is_being_submitted = False
        self.resources: list[str] = []
        """Files that every instance finds in its folder."""
        self.results: list[str] = []
        """Patterns of files that are collected from there."""
        self.after: list[TaskFlows] = []
        """Tasks that must succeed first."""
        self.amounts: Amounts | Mapping[str, float | str] = Amounts()
        """What one instance needs, such as `{"cpus": 2, "memory": "4GB"}`."""

    def known_as(self, record: QueuedTaskRecord) -> Self:
        """One that is there."""
        self._record, self.command = record, record.command
        return self

    @property
    def resource_pool(self) -> str:
        """The name of its pool: the one that it was last known to wait for. Empty before that: a default pool."""
        if self._record is not None:
            return self._record.pool
        return self._pool.id if isinstance(self._pool, PoolFlows) else self._pool or ""

    @resource_pool.setter
    def resource_pool(self, name: str) -> None:
        if self._record is not None:
            raise errors.error(errors.USAGE, f"task '{self.name}' is submitted", hint="call change('move', pool=NAME)")
        self._pool = name

    @property
    def uuid(self) -> str:
        """The id that the service gave it."""
        if self._record is None:
            raise errors.error(errors.USAGE, f"task '{self.name}' is not submitted yet", hint="call submit() or run()")
        return self._record.id

    def record_flow(self) -> Flow[QueuedTaskRecord]:
        """How it is now."""
        self._record = yield from asked(get(f"/tasks/{self.uuid}", QueuedTaskRecord))
        return self._record

    def submit_flow(self) -> Flow[QueuedTaskRecord]:
        """Put it into the queue."""
        if self._record is None:
            if self._is_being_submitted:
                words = f"task '{self.name}' comes after itself, so it would never start"
                raise errors.error(errors.USAGE, words, hint="look at `after` of this task, and of those that it names")
            self._is_being_submitted = True
            try:
                new = yield from self._asked()
            finally:
                self._is_being_submitted = False
            self._record = yield from asked(create("/tasks", QueuedTaskRecord, new))
        return self._record

    def _asked(self) -> Flow[NewTask]:
        command = self.command or next((self.constants[name] for name in COMMANDS if name in self.constants), "")
        if not command:
            raise errors.error(
                errors.USAGE, f"task '{self.name}' has no command", hint="set task.command, or task.constants['CMD']"
            )
        self._refuse_texts_for_lists()
        pool = self._pool or ""
        if isinstance(pool, PoolFlows):
            pool = (yield from pool.submit_flow()).name
        after = []
        for task in self.after:
            after.append((yield from task.submit_flow()).id)  # noqa: PERF401  # comprehensions cannot yield
        resources, uploads = yield from send_files(self.resources)
        return msgspec.structs.replace(
            self.terms,
            pool=pool,
            command=command,
            constants={name: str(value) for name, value in self.constants.items()},
            after=tuple(after),
            amounts=self._amounts_in_numbers(),
            resources=resources,
            uploads=uploads,
            results=tuple(self.results),
        )

    def _refuse_texts_for_lists(self) -> None:
        """A text is a sequence too: of its letters, which nobody means."""
        lists: dict[str, object] = {"resources": self.resources, "results": self.results, "after": self.after}
        for name, value in lists.items():
            if isinstance(value, str):
                words = f"`{name}` of task '{self.name}' should be a list, and is the text {value!r}"
                raise errors.error(errors.USAGE, words, hint=f"write [{value!r}]" if name != "after" else _AFTER)
        after: list[object] = [*self.after]
        if strangers := [each for each in after if not isinstance(each, TaskFlows)]:
            words = f"`after` of task '{self.name}' names {strangers[0]!r}, which is not a task"
            raise errors.error(errors.USAGE, words, hint=_AFTER)

    def _amounts_in_numbers(self) -> Amounts:
        if isinstance(self.amounts, Amounts):
            return self.amounts
        for name in self.amounts:
            if name not in AMOUNTS:
                words = f"task '{self.name}' asks for '{name}'; amounts are {', '.join(AMOUNTS)}"
                raise errors.error(errors.USAGE, words, hint=did_you_mean(name, AMOUNTS))
        try:
            sizes = {name: parse_bytes(self.amounts[name]) for name in ("memory", "disk") if name in self.amounts}
        except ValueError as problem:
            raise errors.error(errors.BAD_VALUE, f"`amounts` of task '{self.name}': {problem}") from problem
        numbers: dict[str, Any] = {**self.amounts, **sizes}  # Any: the service says which of them are none
        return Amounts(**numbers)

    def wait_flow(self, timeout: float | None) -> Flow[bool]:
        """Until it is over; whether it succeeded."""
        return self._followed(timeout)

    def run_flow(self, timeout: float | None, *, quiet: bool) -> Flow[bool]:
        """The same, with its progress and its output on the terminal."""
        return self._followed(timeout, None if quiet else self._show)

    def _followed(
        self, timeout: float | None, look: Callable[[QueuedTaskRecord], Flow[None]] | None = None
    ) -> Flow[bool]:
        """Until it is over. Where somebody looks, they see it whenever it is different, and every second."""
        yield from self.submit_flow()
        until = None if timeout is None else time.monotonic() + timeout
        found = yield from self.record_flow()
        while not found.state.is_over:
            if look is not None:
                yield from look(found)
            step = POLL_SECONDS if look is None else _LOOK_EVERY
            left = step if until is None else min(step, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"task '{self.name}' is {found.state} after {timeout} s: {'; '.join(found.why)}")
            self._record = found = yield from asked(changed_task(found, left, ends=look is None))
        if look is not None:
            yield from look(found)
        return found.state is TaskState.SUCCESS

    def _show(self, record: QueuedTaskRecord) -> Flow[None]:
        """New output of its instances, and a line when its numbers change."""
        text = yield from asked(get(f"/tasks/{record.id}/stdout", bytes, since=self._shown.size))
        sys.stdout.write(self._shown.text_of(text, last=record.state.is_over))
        sys.stdout.flush()
        counts = {state: record.counts.get(state, 0) for state in InstanceState}
        words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        line = f"{record.name}: {record.state}, {plural(record.instances, 'instance')}: {words}"
        if line not in self._told:
            self._told.add(line)
            sys.stderr.write(f"{line}\n")

    def output_flow(self, stream: str, instance: int | None) -> Flow[str]:
        """What its instances wrote so far."""
        data = yield from asked(get(f"/tasks/{self.uuid}/{stream}", bytes, instance=instance))
        return data.decode(errors="replace")

    def download_flow(self, folder: str | Path) -> Flow[list[Path]]:
        """Copy the files that were collected so far."""
        found = []
        for name in (yield from asked(get(f"/tasks/{self.uuid}/results", tuple[str, ...]))):
            target = Path(folder) / name
            yield from asked(Ask("GET", f"/tasks/{self.uuid}/results/{named(name)}", bytes, target=target))
            found.append(target)
        return found

    def change_flow(self, verb: TaskVerb, **given: str | int) -> Flow[None]:
        """Change it."""
        self._record = yield from asked(post(f"/tasks/{self.uuid}/{verb}", QueuedTaskRecord, given or None))

    def leave_flow(self) -> Flow[None]:
        """At the end of a context: cancel it, unless it is over."""
        if self._record is not None and not (yield from self.record_flow()).state.is_over:
            yield from self.change_flow("cancel")

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.name!r}, {self._record.state if self._record else 'not submitted'})"

    def _repr_html_(self) -> str:
        if self._record is None:
            return f"<p>Task <b>{html.escape(self.name)}</b>, not submitted</p>"
        return tasks_table([self._record])


def changed_task(before: QueuedTaskRecord, seconds: float, *, ends: bool = False) -> Ask[QueuedTaskRecord]:
    """A task as it is once it differs, or has ended where only that matters, or after so many seconds."""
    path, seen = f"/tasks/{before.id}", before.ending if ends else before.progress
    known = "true" if ends else None
    return get(path, QueuedTaskRecord, wait=seconds, changed_from=seen, seconds=seconds, ends=known)


# A task of a service, as programs see it.


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
