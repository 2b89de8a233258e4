"""Define what a service says: of pools, tasks and the queue, of who may use it, of what happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from cenote.engine.scaling import PoolState
from cenote.language.execution import Amounts, Elastic
from cenote.service.client.definitions import InstanceState, TaskState, TaskTerms

# Define who may use a service and what they sign in with: the bodies of requests and answers about it.


class CallerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as the service knows them."""

    user: str
    admin: bool = False
    """Whether they may change what belongs to others."""
    groups: tuple[str, ...] = ()
    """Groups that their tasks may name; an admin may name any."""
    names_files: bool = False
    """Whether `resources` may name files of the service's machine; everybody else uploads them."""


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without what makes it one."""

    id: str
    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    created: str = ""
    expires: str | None = None
    used: str | None = None
    """When it was last shown, to the minute."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a token."""

    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    seconds: int | None = None
    """Until it expires."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made: nobody can read it a second time."""

    token: str
    record: TokenRecord


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a session of a browser: with a token, or with the key of a link."""

    token: str = ""
    key: str = ""


class PageLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link to the service's page that signs its owner in once."""

    url: str
    seconds: int
    """For which it is valid."""
    fingerprint: str
    """SHA-256 of the certificate that the page shows."""


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file whose content was uploaded before."""

    name: str
    """That instances see, without folders."""
    digest: str
    """SHA-256 of its content, in hexadecimal digits."""
    executable: bool = False


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Content that the service has for a while."""

    digest: str
    size: int
    expires: str
    """When it is removed, unless it is used before."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It was done."""

    done: bool = True


class StoppingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The service ends."""

    running: int
    """Instances that ran when it was asked to: the next service begins them again, unless it waits for them."""


TaskVerb = Literal["cancel", "pause", "resume", "move", "priority", "ahead"]
"""How a task can be changed; `TaskChange` has what that needs to know."""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The service itself."""

    version: str
    """Of Cenote."""
    api: int = 1
    """Of these answers; what changes them is a new number."""
    user: str
    pid: int
    """For its owner and admins; 0 for others."""
    python_version: str = ""
    """Its first two numbers, which those of its workers are as well."""
    started: str
    private: bool = False
    """Whether it was started for one user's programs, and ends when nobody uses it."""
    python: str = ""
    """The interpreter of the service and its agents; empty for those who see no `pid`."""
    home: str = ""
    """Its folder, on the machine that it runs on; empty for those who see no `pid`."""
    url: str = ""
    """Where it listens for others, over HTTPS; empty where it does not."""
    fingerprint: str = ""
    """SHA-256 of the certificate that it shows there."""


PENDING_DELETE = "PendingDelete"
"""State of a pool that is being removed; the others are those of `PoolState`."""


class LivePoolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A pool and how it is."""

    name: str
    title: str = ""
    user: str = ""
    profile: str = ""
    strategy: str = ""
    state: str = PoolState.SUBMITTED.value
    reason: str = ""
    """Why it is so."""
    workers: int = 0
    """There now."""
    awaited: int = 0
    """Asked for, and not there yet."""
    wanted: int | None = None
    """Its size, where that is fixed."""
    elastic: Elastic | None = None
    slots: int = 1
    """Of one worker."""
    busy: int = 0
    """Slots in use."""
    waiting: int = 0
    """Instances that wait for it."""
    resources: Amounts = Amounts()
    on_demand: bool = False
    """Whether it was made because something needed it; see `PoolDefinition`."""


class TaskInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a task."""

    number: int
    state: InstanceState = InstanceState.WAITING
    attempts: int = 0
    worker: str = ""
    exit_code: int | None = None
    message: str = ""
    """Why it failed, or was begun again."""
    cause: str = ""
    """The same in a word: `exit`, `signal`, `timeout`, `stopped`, `lost`, `refused`, `evicted`, `unkept`,
    `preempted`."""


class QueuedTaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task and how far it is."""

    id: str
    name: str = ""
    user: str = ""
    group: str = ""
    pool: str = ""
    state: TaskState = TaskState.SUBMITTED
    instances: int = 1
    counts: dict[str, int] = {}
    """Instances by their state."""
    priority: int = 0
    fell_back_from: tuple[str, ...] = ()
    """Pools that it waited for in vain."""
    command: str = ""
    labels: dict[str, str] = {}
    submitted: str = ""
    ended: str | None = None
    why: tuple[str, ...] = ()
    """Why it waits, and what is ahead of it; why it failed."""
    run: str = ""
    """The folder of the run that it drives; empty for one that drives none."""

    @property
    def progress(self) -> str:
        """How far it is, in a word that changes with it: what a request says that it has seen."""
        return progress_of(self.state, self.counts)

    @property
    def ending(self) -> str:
        """How it ended; empty as long as it did not."""
        return str(self.state) if self.state.is_over else ""


def progress_of(state: TaskState, counts: Mapping[str, int]) -> str:
    """Of a task in this state, with so many instances in each."""
    words = ",".join(f"{name}={count}" for name, count in sorted(counts.items()) if count)
    return f"{state};{words}"


class AwaitedInstances(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks which of these instances are over."""

    tasks: dict[str, tuple[int, ...]]
    """Id → numbers of instances."""
    added: int = -1
    """As the last answer had it: another number is an answer as well."""
    seconds: float = 0.0
    """To wait for an answer."""


class EndedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One that is over, with what its calls returned (`RETURNED`)."""

    task: str
    instance: TaskInstance
    why: str = ""
    """Of its task, where that was cancelled."""
    returned: bytes = b""
    size: int | None = None
    """Of that file, which is not here where it is larger than what is; None where there is no such file."""


class EndedInstances(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to that."""

    added: int
    """Tasks that were added since the service was started."""
    ended: tuple[EndedInstance, ...] = ()


class ForecastRecord(msgspec.Struct, frozen=True, kw_only=True):
    """When a task would start and end."""

    task: str
    name: str = ""
    user: str = ""
    pool: str = ""
    """Where it would start."""
    ahead: int = 0
    """Instances of other tasks that would start before its next one."""
    starts: str | None = None
    """Its next instance; None where that is not within sight."""
    ends: str | None = None
    seconds: float = 0.0
    """That one of its instances is taken to run."""
    duration: str = ""
    """Where that is from."""
    why: tuple[str, ...] = ()
    """Why it waits now."""


class QueueForecast(msgspec.Struct, frozen=True, kw_only=True):
    """When the tasks of a queue would start and end."""

    tasks: tuple[ForecastRecord, ...] = ()


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong with a request."""

    kind: str
    message: str
    hint: str | None = None


class NewPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a pool."""

    name: str
    profile: str = "local"
    """A pool profile that the service knows, or a strategy."""
    workers: int | None = None
    elastic: Elastic | None = None
    elastic_counts: Literal["workers", "slots"] = "workers"
    """What the numbers of `elastic` are."""
    slots: int | None = None
    """Instances at once per worker; None leaves it to the profile."""
    resources: tuple[str, ...] = ()
    """Files of the service's machine, for its owner."""
    uploads: tuple[UploadedFile, ...] = ()
    """Files that were uploaded."""
    amounts: Amounts | None = None
    """What one worker has; None leaves it to the profile."""
    on_demand: bool = False
    """See `PoolDefinition`."""


class NewTask(TaskTerms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a task."""

    uploads: tuple[UploadedFile, ...] = ()
    """Files that were uploaded, besides `resources`, which are for the service's owner."""


class TaskChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a change of a task needs to know."""

    pool: str = ""
    """To `move` to."""
    priority: int = 0
    of: str = ""
    """The task to be put `ahead` of."""


# Define what a service tells of as it happens.


EventKind = Literal["service", "pool", "task", "output", "reset"]


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a task printed."""

    task: str
    stream: Literal["stdout", "stderr"]
    offset: int
    """Of the first byte, in all that the task wrote to this stream."""
    data: bytes


class HeardEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    id: str
    """To go on after it: `events(after=…)`."""
    kind: EventKind
    """`reset` is for those who heard nothing for too long: what they know may be wrong, so they ask anew."""
    record: LivePoolRecord | QueuedTaskRecord | OutputRecord | ServiceRecord | None = None


_RECORDS: dict[str, Any] = {  # Any: types of structs
    "service": ServiceRecord,
    "pool": LivePoolRecord,
    "task": QueuedTaskRecord,
    "output": OutputRecord,
}


class EventReader:
    """Reads lines of server-sent events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> HeardEvent | None:
        """The event that this line completes, if it does. Kinds that this version does not know are left out."""
        text = line.rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return None
        found, self._fields = self._fields, {}
        kind = found.get("event", "")
        if kind == "reset":
            return HeardEvent(id=found.get("id", ""), kind="reset")
        if kind not in _RECORDS:
            return None
        record = msgspec.json.decode(found["data"], type=_RECORDS[kind])
        return HeardEvent(id=found.get("id", ""), kind=msgspec.convert(kind, EventKind), record=record)
