"""Tasks wait while a credential has ended, and those that failed for it are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import pytest

from cenote.common.errors import Problem
from cenote.engine.messages import AnyEvent, FailureInfo, PoolHeld, TaskFailed, Warned
from cenote.execution.backends.interface import Session
from cenote.execution.credentials.interface import FILE, Credential, CredentialFacts
from cenote.execution.runs.credentials import NamedCredential
from cenote.execution.runtime.credential_watch import CredentialGate, CredentialWatch
from cenote.execution.worker.task_spec import TaskSpec


class Inner(Session):
    """Notes what it gets."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.says: list[AnyEvent] = []

    def run(self, spec: TaskSpec, pool: str) -> None:
        del pool
        self.ran.append(spec.task)

    def cancel(self, task: int) -> None:
        raise AssertionError(f"{task} never came here")

    def events(self, seconds: float) -> list[AnyEvent]:
        del seconds
        said, self.says = self.says, []
        return said

    def close(self) -> None:
        """Nothing is open."""


class Badge(Credential):
    """Ends at 100."""

    def check(self, now: float) -> Iterable[Problem]:
        del now
        return ()

    def facts(self) -> CredentialFacts:
        return CredentialFacts("/badge", ends=100.0)

    def read(self) -> bytes:
        return b"x"

    def variables(self) -> Mapping[str, str | None]:
        return {"BADGE": FILE}


class Scene:
    """A gate with a clock of its own; the credential ends when the clock says 100, until it is renewed."""

    def __init__(self) -> None:
        self.now, self.renewed = 0.0, False
        self.inner = Inner()
        self.gate = CredentialGate(self.inner, self.inner, _Watch(self), clock=lambda: self.now)

    def run(self, task: int, kind: Literal["run", "merge"] = "run") -> None:
        self.gate.run(TaskSpec(task, f"key {task}", kind, segment=0), "default")

    def failed(self, cause: Literal["bad_input", "error"] = "bad_input") -> TaskFailed:
        self.inner.says = [
            TaskFailed(
                at=self.now,
                task=1,
                pool="default",
                worker="w",
                failure=FailureInfo(cause=cause, message="no protocols left"),
            )
        ]
        (event,) = [event for event in self.gate.events(0.0) if isinstance(event, TaskFailed)]
        return event


class _Watch(CredentialWatch):
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def ended(self, pool: str) -> NamedCredential | None:
        del pool
        over = self._scene.now >= 100.0 and not self._scene.renewed
        return NamedCredential("badge", Badge(), None) if over else None

    def news(self) -> list[AnyEvent]:
        return []

    def stop(self) -> None:
        """There is no thread."""


@pytest.fixture
def scene() -> Scene:
    return Scene()


def warnings(events: Sequence[AnyEvent]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def test_tasks_wait_for_a_new_credential_and_merges_do_not(scene: Scene) -> None:
    scene.run(1)
    scene.now = 100.0
    scene.run(2)
    scene.run(3)
    scene.run(4, "merge")
    assert scene.inner.ran == [1, 4]
    (told,) = warnings(scene.gate.events(0.0))
    assert "'badge' ended" in told
    assert "/badge" in told
    scene.renewed = True
    assert warnings(scene.gate.events(0.0)) == []
    assert scene.inner.ran == [1, 4, 2, 3]


def test_the_journal_knows_which_pools_wait(scene: Scene) -> None:
    def held() -> list[bool]:
        return [bool(event.reason) for event in scene.gate.events(0.0) if isinstance(event, PoolHeld)]

    scene.now = 100.0
    scene.run(2)
    assert (held(), held()) == ([True], [])
    scene.gate.cancel(2)
    scene.renewed = True
    assert (held(), held()) == ([False], [])


def test_a_task_that_waits_can_be_cancelled(scene: Scene) -> None:
    scene.now = 100.0
    scene.run(2)
    scene.gate.cancel(2)
    (event,) = [event for event in scene.gate.events(0.0) if isinstance(event, TaskFailed)]
    assert (event.task, event.failure.cause) == (2, "stopped")
    scene.renewed = True
    scene.gate.events(0.0)
    assert scene.inner.ran == []


def test_a_task_that_could_not_read_for_it_is_tried_again(scene: Scene) -> None:
    assert scene.failed().failure.cause == "bad_input", "before it ended"
    scene.now = 101.0
    assert scene.failed().failure.cause == "lost"
    assert scene.failed("error").failure.cause == "error", "an exception of the user's own code"
    scene.renewed = True
    scene.now = 110.0
    assert scene.failed().failure.cause == "lost", "it had tried for a while"
    scene.now = 200.0
    assert scene.failed().failure.cause == "bad_input"
