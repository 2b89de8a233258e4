"""Define what the driver's thread reads: from workers over Dask's own stream, and from the scheduler beside it.

A bundle's outcomes and products travel on the ordered stream from worker to scheduler, right before Dask's own word
that the bundle is in memory: once Dask has the result, the driver has them too, and the worker may go. They are not the
bundle's result on Dask, because that is what stays on the worker for others: its events. To fetch products from there,
a second task would have to wait for a free slot, or all events come along.
"""

from __future__ import annotations

import msgspec

from cenote.engine.messages import AnyEvent
from cenote.execution.worker.process.credentials import DeliveredCredential
from cenote.execution.worker.task_spec import Outcome

OPERATION = "cenote"
"""Of our messages on the stream from worker to scheduler."""
SOFTWARE = "cenote_software"
"""A question to the scheduler, by which workers say in what they differ from it. Its arguments never change: workers of
other versions ask it too."""
CREDENTIALS = "cenote_credentials"
"""Of what workers ask the scheduler for before their first task, and of what is sent to them when it changes."""


class TaskReport(msgspec.Struct, frozen=True):
    """How a task of a bundle went, and its products."""

    outcome: Outcome
    products: bytes = b""
    kept: dict[str, bytes] = {}
    """What is stored for later runs, by its names in the store."""


class WorkerMessage(msgspec.Struct, frozen=True, tag=True):
    """What a worker says."""

    worker: str


class BundleStarted(WorkerMessage, frozen=True, tag=True):
    """It begins a bundle."""

    key: str


class BundleDone(WorkerMessage, frozen=True, tag=True):
    """It is done with a bundle."""

    key: str
    reports: tuple[TaskReport, ...]


class TaskEndsWorker(WorkerMessage, frozen=True, tag=True):
    """A task of a bundle cannot be stopped, and so it ends."""

    key: str
    outcome: Outcome


class OutOfMemory(WorkerMessage, frozen=True, tag=True):
    """It used so much of its memory, in bytes, and ends."""

    used: int
    limit: int


class Drains(WorkerMessage, frozen=True, tag=True):
    """It begins nothing more."""

    reason: str
    keys: tuple[str, ...] = ()
    """Bundles that it was sent; the scheduler adds them."""


AnyWorkerMessage = BundleStarted | BundleDone | TaskEndsWorker | OutOfMemory | Drains


class Joins(msgspec.Struct, frozen=True):
    """A worker is there."""

    worker: str
    pool: str


class Differs(msgspec.Struct, frozen=True):
    """A worker has other software than the driver; it was turned away for that, or will join all the same."""

    worker: str
    pool: str
    words: str
    refused: bool


class Leaves(msgspec.Struct, frozen=True):
    """A worker is gone."""

    worker: str


class StopsAnswering(msgspec.Struct, frozen=True):
    """A worker has not answered for so many seconds."""

    worker: str
    seconds: float
    keys: tuple[str, ...] = ()
    """Bundles that it was sent; the scheduler adds them."""


class AnswersAgain(msgspec.Struct, frozen=True):
    """It does again."""

    worker: str


class InMemory(msgspec.Struct, frozen=True):
    """Dask has the result of a bundle."""

    key: str
    fetching: float = 0.0
    """Seconds that its worker took to fetch the inputs from others."""


class MadeAgain(msgspec.Struct, frozen=True):
    """Dask lost the result of a bundle, and makes it again."""

    key: str


class Forgotten(msgspec.Struct, frozen=True):
    """Dask has let go of a bundle."""

    key: str


class Erred(msgspec.Struct, frozen=True):
    """Dask could not run a bundle."""

    key: str
    text: str


Message = (
    AnyWorkerMessage
    | Joins
    | Differs
    | Leaves
    | StopsAnswering
    | AnswersAgain
    | InMemory
    | MadeAgain
    | Forgotten
    | Erred
    | AnyEvent
)
"""All of them, and events that are known at once."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyWorkerMessage).decode
NO_CREDENTIALS = encode(())
decode_credentials = msgspec.msgpack.Decoder(tuple[DeliveredCredential, ...]).decode
