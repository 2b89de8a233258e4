"""Use what distributed and Tornado do not document, in one place: it may change with any of their versions.

Each function and class says with which versions it was seen; `pyproject.toml` has the bounds. Where some of it changes,
`tests/execution/backends/test_private_parts.py` fails first.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from distributed import Scheduler, Security, Status, Worker, get_worker, rpc
from distributed.comm import get_address_host
from distributed.comm.tcp import TLSListener
from distributed.metrics import time
from distributed.scheduler import WorkerState, heartbeat_interval
from distributed.utils import get_ip_interface, offload, silence_logging_cmgr
from distributed.versions import get_versions
from distributed.worker_state_machine import GatherDepSuccessEvent, StateMachineEvent
from tornado.iostream import IOStream, SSLIOStream

_Result = TypeVar("_Result")
# Any, below: neither of them publishes types for these.

# Connect, and listen.


class ContextSecurity(Security):  # type: ignore[misc]  # distributed publishes no types for it
    """Connections by two contexts, whoever makes them. Dask's own would write keys into temporary files each time.

    `get_connection_args` and `get_listen_args`, and what their answers hold: distributed 2025.7 to 2026.8.
    """

    def __init__(self, *, listening: ssl.SSLContext, connecting: ssl.SSLContext) -> None:
        super().__init__(require_encryption=True)
        self._listening, self._connecting = listening, connecting

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """For any role: drivers and workers each have one certificate."""
        return {**self._by(self._connecting, role), "extra_conn_args": {}}

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """For any role."""
        return self._by(self._listening, role)

    def _by(self, context: ssl.SSLContext, role: str) -> dict[str, Any]:
        del role
        return {"ssl_context": context, "require_encryption": True}


class ListeningServer:
    """What schedulers and workers have in common: no pages, and a look at each connection from another process.

    `start_http_server`, `listen` and `listeners` of servers: distributed 2025.7 to 2026.8.
    """

    listeners: list[Any]

    def start_http_server(self, *_: object, **__: object) -> None:
        """No pages."""

    async def listen(self, *where: Any, **options: Any) -> None:
        """Listen, and look at each connection before it is served."""
        await super().listen(*where, **options)  # type: ignore[misc]  # of the other class it is mixed with
        if isinstance(self.listeners[-1], TLSListener):
            open_streams_here(self.listeners[-1].tcp_server, self.look_at)

    def look_at(self, stream: SSLIOStream) -> None:
        """A connection is there; its handshake has not begun."""


def open_streams_here(server: Any, look_at: Callable[[SSLIOStream], None]) -> None:
    """Make the encrypted streams of a Tornado server ourselves, and look at each.

    It would make them without the certificates that they are to have, and so read all those that the system trusts for
    the first one, which takes 70 ms. `ssl_options` and `handle_stream` of servers may be set once they listen, and are
    looked up for each connection; distributed sets `handle_stream` too: Tornado 6.4 to 6.6.
    """
    context, handle = server.ssl_options, server.handle_stream

    async def handle_encrypted(plain: IOStream, address: object) -> None:
        try:
            encrypted = context.wrap_socket(plain.socket, server_side=True, do_handshake_on_connect=False)
        except OSError:  # whoever it was has gone
            plain.close()
            return
        limits = {"max_buffer_size": plain.max_buffer_size, "read_chunk_size": plain.read_chunk_size}
        stream = SSLIOStream(encrypted, ssl_options=context, **limits)
        look_at(stream)
        await handle(stream, address)

    server.ssl_options, server.handle_stream = None, handle_encrypted


class SchedulerWithin(Scheduler):  # type: ignore[misc]  # distributed publishes no types for it
    """A scheduler that its own process reaches without any network, and workers by one port.

    Lists as `host`, `port` and `protocol`, and `external_address`, which its cluster and its client go to:
    distributed 2025.7 to 2026.8.
    """

    def __init__(self, *, host: str, port: int, **options: Any) -> None:
        super().__init__(host=[host, None], port=[port, None], protocol=["tls", "inproc"], **options)

    @property
    def external_address(self) -> str:
        """Where its cluster and its client in this process find it."""
        return str(self.listeners[-1].contact_address)


def on_one_machine(one: str, other: str) -> bool:
    """Whether two addresses of workers have the same host. `get_address_host`: distributed 2025.7 to 2026.8."""
    return bool(get_address_host(one) == get_address_host(other))


def address_of_interface(name: str) -> str:
    """The IPv4 address of a network interface; ValueError where there is none.
    `get_ip_interface`: distributed 2025.7 to 2026.8."""
    return str(get_ip_interface(name))


# Talk over the connections that are there.


def answer(server: Scheduler | Worker, question: str, by: Callable[..., object]) -> None:
    """From now on, whoever asks this gets what `by` gives. `handlers`: distributed 2025.7 to 2026.8."""
    server.handlers[question] = by


def hear(server: Scheduler | Worker, operation: str, by: Callable[..., object]) -> None:
    """From now on, messages of this kind come to `by`, in the order in which they were sent, and before all that Dask
    sends later. `stream_handlers`: distributed 2025.7 to 2026.8."""
    server.stream_handlers[operation] = by


def tell_scheduler(worker: Worker, message: Mapping[str, object]) -> None:
    """Send this by the stream that also says when Dask has a result. `batched_send`: distributed 2025.7 to 2026.8."""
    worker.loop.add_callback(worker.batched_send, message)


def tell_worker(scheduler: Scheduler, address: str, message: Mapping[str, object]) -> None:
    """Send this by the stream to a worker. `worker_send`: distributed 2025.7 to 2026.8."""
    scheduler.worker_send(address, message)


async def ask_scheduler(worker: Worker, question: str, **arguments: object) -> Any:
    """What the scheduler answers a worker that joins or has joined. `scheduler`: distributed 2025.7 to 2026.8."""
    return await getattr(worker.scheduler, question)(**arguments)


async def ask_worker(worker: Worker, address: str, question: str, **arguments: object) -> Any:
    """What another worker answers. `rpc` of servers, a pool of connections: distributed 2025.7 to 2026.8."""
    return await getattr(worker.rpc(address), question)(**arguments)


async def ask_from_outside(address: str, security: Security, question: str, **arguments: object) -> Any:
    """What a scheduler answers who has not joined. `rpc`, with `connection_args`: distributed 2025.7 to 2026.8."""
    async with rpc(address, connection_args=security.get_connection_args("worker")) as scheduler:
        return await getattr(scheduler, question)(**arguments)


# Have a worker take nothing more, or tasks again.


def set_status(scheduler: Scheduler, worker: WorkerState, status: Status, *, why: str) -> None:
    """The scheduler treats the worker as if it had said that it is paused, or runs again.
    `handle_worker_status_change`: distributed 2025.7 to 2026.8."""
    scheduler.handle_worker_status_change(status, worker, stimulus_id=why)


def stay_paused(worker: Worker) -> None:
    """Dask does not wake it up for its memory. `memory_manager.memory_pause_fraction`: distributed 2025.7 to 2026.8."""
    worker.memory_manager.memory_pause_fraction = False


def memory_limit(worker: Worker) -> int | None:
    """Bytes. `memory_manager.memory_limit`: distributed 2025.7 to 2026.8."""
    limit: int | None = worker.memory_manager.memory_limit
    return limit


def heartbeat_seconds(workers: int) -> float:
    """How often each of so many workers is to be heard of. `heartbeat_interval`: distributed 2025.7 to 2026.8."""
    return float(heartbeat_interval(workers))


# Know what a worker is about to do.

WAITS = "constrained"
"""What a worker calls a task that has come, and waits for the resource of its pool: distributed 2025.7 to 2026.8."""


def waiting(worker: Worker) -> int:
    """How many tasks have come, and wait. `state.constrained`: distributed 2025.7 to 2026.8."""
    return len(worker.state.constrained)


def next_call(worker: Worker, function: Callable[..., object]) -> tuple[Any, ...] | None:
    """What this function will be called with, where that is the task that comes next. `peek` of `state.constrained`,
    and `func` and `args` of its `run_spec`: distributed 2025.7 to 2026.8."""
    if not waiting(worker):
        return None
    spec = worker.state.constrained.peek().run_spec
    return tuple(spec.args) if getattr(spec, "func", None) is function else None


def plugin_here(name: str) -> Any:
    """The plugin of the worker whose task calls this. `plugins`: distributed 2025.7 to 2026.8."""
    return get_worker().plugins[name]


# Get results from other workers.


class FetchingWorker(Worker):  # type: ignore[misc]  # distributed publishes no types for it
    """A worker that may have results of others in its own way.

    `gather_dep`, `_get_cause` and `_update_metrics_received_data`, as Dask's own `gather_dep` calls them, and
    `GatherDepSuccessEvent`: distributed 2025.7 to 2026.8.
    """

    async def fetch(self, worker: str, keys: Collection[str], nbytes: int) -> Mapping[str, object]:  # noqa: ARG002
        """Results of another worker. Where any is missing, Dask fetches all of them."""
        return {}

    async def gather_dep(
        self, worker: str, to_gather: Collection[str], total_nbytes: int, *, stimulus_id: str
    ) -> StateMachineEvent:
        """As Dask calls it to fetch results from another worker, ahead of the tasks that need them."""
        start = time()
        data = dict(await self.fetch(worker, to_gather, total_nbytes))
        if len(data) < len(to_gather):
            return await super().gather_dep(worker, to_gather, total_nbytes, stimulus_id=stimulus_id)
        cause = self._get_cause(to_gather)
        self._update_metrics_received_data(start=start, stop=time(), data=data, cause=cause, worker=worker)
        return GatherDepSuccessEvent(
            worker=worker, total_nbytes=total_nbytes, data=data, stimulus_id=f"cenote-borrowed-{time()}"
        )


def transfer_seconds(said: Mapping[str, Any]) -> float:
    """How long the worker of a task that is in memory took to fetch its inputs, from the beginning of the first to the
    end of the last; `said` came with the transition. `startstops`: distributed 2025.7 to 2026.8."""
    done: Iterable[Mapping[str, Any]] = said.get("startstops") or ()
    times = [(one["start"], one["stop"]) for one in done if one["action"] == "transfer"]
    return max((stop for _, stop in times), default=0.0) - min((start for start, _ in times), default=0.0)


def error_text(said: Mapping[str, Any]) -> str:
    """Why a task erred; `said` came with the transition. `exception_text`: distributed 2025.7 to 2026.8."""
    return str(said.get("exception_text") or said.get("exception"))


# Do as Dask does.


def now() -> float:
    """By the clock that `last_seen` of workers goes by. `metrics.time`: distributed 2025.7 to 2026.8."""
    return float(time())


async def beside_the_loop(work: Callable[[], _Result]) -> _Result:
    """Do this in the one thread that Dask has for long work. `offload`: distributed 2025.7 to 2026.8."""
    result: _Result = await offload(work)
    return result


def silenced() -> AbstractContextManager[None]:
    """Dask's logs say nothing meanwhile. `silence_logging_cmgr`: distributed 2025.7 to 2026.8."""
    silent: AbstractContextManager[None] = silence_logging_cmgr(logging.CRITICAL)
    return silent


def look_up_versions() -> None:
    """Do what takes long once in a process, and is kept there: look up versions of a dozen packages, and import the
    event loop. `get_versions`: distributed 2025.7 to 2026.8; `platform.asyncio`: Tornado 6.4 to 6.6."""
    import tornado.platform.asyncio  # noqa: F401

    get_versions()
