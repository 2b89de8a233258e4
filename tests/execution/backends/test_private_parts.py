"""What distributed and Tornado do not document is as `private.py` uses it, and is used nowhere else."""

from __future__ import annotations

import ast
import asyncio
import functools
import logging
import re
import ssl
import sys
import threading
import typing
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

import distributed
import pytest
import tornado
from distributed import Client, Scheduler, Security, Status, Worker, worker_state_machine
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin
from tornado import netutil
from tornado.iostream import SSLIOStream
from tornado.tcpserver import TCPServer

from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.doors import SecuredScheduler, SecuredWorker

FILE = Path(private.__file__)
SEEN = f"distributed {distributed.__version__} with Tornado {tornado.version}"
LOOPBACK = {"host": "127.0.0.1", "dashboard": False}
POOL = {"pool": 1}
TESTED: list[str] = []
DOCUMENTED = {
    *("dask", "dask.config", "dask.sizeof", "distributed", "distributed.diagnostics.plugin", "distributed.scheduler"),
    *("tornado.ioloop", "tornado.iostream"),
}
"""Modules that others than `private.py` may import from."""
FENCED = {
    *("batched_send", "constrained", "exception_text", "external_address", "gather_dep", "get_connection_args"),
    *("get_listen_args", "handle_stream", "handle_worker_status_change", "handlers", "listeners", "memory_manager"),
    *("memory_pause_fraction", "plugins", "rpc", "ssl_options", "start_http_server", "startstops", "stream_handlers"),
    *("tcp_server", "worker_send"),
}
"""Attributes that only `private.py` may touch, besides all that begin with an underscore."""

# What it uses is there.


def of(*used: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of these functions, classes or names; when it fails, it says where to look."""
    names = [one if isinstance(one, str) else one.__name__ for one in used]
    TESTED.extend(names)

    def noted(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*arguments: Any, **options: Any) -> None:
            try:
                test(*arguments, **options)
            except Exception as problem:
                problem.add_note(f"{SEEN} is not as {FILE} uses it: mend {' and '.join(names)} there")
                raise

        return run

    return noted


def with_a_worker(
    look: Callable[[Scheduler, Worker, Client], Coroutine[Any, Any, None]], *plugins: SchedulerPlugin
) -> None:
    """Look at a scheduler with one worker, and a client."""

    async def started() -> None:
        options = {"port": 0, "dashboard_address": "127.0.0.1:0", "plugins": plugins}
        async with (
            Scheduler(**LOOPBACK, **options) as scheduler,
            Worker(scheduler.address, nthreads=1, resources=POOL, memory_limit=2**31, **LOOPBACK) as worker,
            Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
        ):
            await look(scheduler, worker, client)

    asyncio.run(asyncio.wait_for(started(), 60))


@of(private.ContextSecurity)
def test_security_is_asked_for_arguments_by_role() -> None:
    known, context = Security(require_encryption=True), ssl.create_default_context()
    ours = private.ContextSecurity(listening=context, connecting=context)
    assert ours.require_encryption is True
    assert ours.get_connection_args("worker").keys() == known.get_connection_args("worker").keys()
    assert ours.get_listen_args("scheduler").keys() == known.get_listen_args("scheduler").keys()


async def _streams_of_a_server() -> tuple[list[SSLIOStream], list[SSLIOStream]]:
    """Those that were looked at, and those that its own code got."""
    identities, seen, served = identities_of("test"), [], asyncio.Queue[SSLIOStream]()

    class Serving(TCPServer):
        async def handle_stream(self, stream: Any, address: object) -> None:
            del address
            await stream.wait_for_handshake()
            served.put_nowait(stream)

    (listening,) = netutil.bind_sockets(0, "127.0.0.1")
    server = Serving(ssl_options=identities.driver.listening())
    server.add_socket(listening)
    private.open_streams_here(server, seen.append)
    _, writer = await asyncio.open_connection(*listening.getsockname(), ssl=identities.workers.connecting())
    stream = await served.get()
    writer.close()
    stream.close()
    server.stop()
    return seen, [stream]


@of(private.open_streams_here)
def test_servers_hand_over_streams_that_read_no_certificates_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    getattr(netutil._client_ssl_defaults, "cache_clear", bool)()
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *purpose: read.append(purpose))
    seen, served = asyncio.run(asyncio.wait_for(_streams_of_a_server(), 60))
    assert seen == served
    assert isinstance(seen[0], SSLIOStream)
    assert read == []


async def _of_secured_servers(folder: Path) -> tuple[list[str], list[str], list[object], bool]:
    """Addresses of scheduler and worker, the scheduler's listeners, what was looked at, and whether there are pages."""
    identities, looked = identities_of("test"), []
    drivers, workers = (
        private.ContextSecurity(listening=one.listening(), connecting=one.connecting())
        for one in (identities.driver, identities.workers)
    )

    class Looking(private.ListeningServer, private.SchedulerWithin):
        def look_at(self, stream: SSLIOStream) -> None:
            looked.append(stream)

    class Quiet(private.ListeningServer, Worker):
        pass

    own = {"dashboard": False, "local_directory": str(folder)}
    async with (
        Looking(host="127.0.0.1", port=0, security=drivers, **own) as scheduler,
        Quiet(scheduler.address, security=workers, protocol="tls", host="127.0.0.1", **own) as worker,
    ):
        kinds = [type(listener).__name__ for listener in scheduler.listeners]
        pages = any(hasattr(server, "http_server") for server in (scheduler, worker))
        return [scheduler.address, scheduler.external_address, worker.address], kinds, looked, pages


@of(private.ListeningServer, private.SchedulerWithin)
def test_servers_listen_without_pages_and_schedulers_at_two_addresses(tmp_path: Path) -> None:
    addresses, kinds, looked, pages = asyncio.run(asyncio.wait_for(_of_secured_servers(tmp_path), 60))
    assert [address.partition(":")[0] for address in addresses] == ["tls", "inproc", "tls"]
    assert kinds == ["TLSListener", "InProcListener"]
    assert {type(stream) for stream in looked} == {SSLIOStream}
    assert not pages


@of(private.on_one_machine)
def test_addresses_have_hosts() -> None:
    assert private.on_one_machine("tls://127.0.0.1:1000", "tls://127.0.0.1:2000")
    assert not private.on_one_machine("tls://127.0.0.1:1000", "tls://127.0.0.2:1000")


@of(private.address_of_interface)
def test_interfaces_have_addresses() -> None:
    assert private.address_of_interface("lo") == "127.0.0.1"
    with pytest.raises(ValueError, match="cenote0"):
        private.address_of_interface("cenote0")


@of(private.answer, private.ask_scheduler, private.ask_worker, private.ask_from_outside)
def test_servers_are_asked_and_answer() -> None:
    async def look(scheduler: Scheduler, worker: Worker, _: Client) -> None:
        for server in (scheduler, worker):
            private.answer(server, "cenote_test", lambda number: number + 1)
        assert await private.ask_scheduler(worker, "cenote_test", number=1) == 2
        assert await private.ask_worker(worker, worker.address, "cenote_test", number=2) == 3
        assert await private.ask_from_outside(scheduler.address, Security(), "cenote_test", number=3) == 4

    with_a_worker(look)


@of(private.hear, private.tell_scheduler, private.tell_worker)
def test_messages_go_both_ways() -> None:
    async def look(scheduler: Scheduler, worker: Worker, _: Client) -> None:
        heard = asyncio.Queue[tuple[str, str]]()
        private.hear(scheduler, "cenote_test", lambda worker, text: heard.put_nowait((worker, text)))
        private.hear(worker, "cenote_test", lambda text: heard.put_nowait(("scheduler", text)))
        private.tell_scheduler(worker, {"op": "cenote_test", "text": "up"})
        assert await heard.get() == (worker.address, "up")
        private.tell_worker(scheduler, worker.address, {"op": "cenote_test", "text": "down"})
        assert await heard.get() == ("scheduler", "down")

    with_a_worker(look)


@of(private.set_status)
def test_paused_workers_get_no_tasks_until_they_run_again() -> None:
    async def look(scheduler: Scheduler, worker: Worker, client: Client) -> None:
        seen = scheduler.workers[worker.address]
        private.set_status(scheduler, seen, Status.paused, why="test")
        assert (seen.status, seen in scheduler.running) == (Status.paused, False)
        private.set_status(scheduler, seen, Status.running, why="test")
        assert (seen.status, seen in scheduler.running) == (Status.running, True)
        assert await client.submit(abs, -1) == 1

    with_a_worker(look)


@of(private.stay_paused, private.memory_limit)
def test_workers_manage_their_memory() -> None:
    async def look(_: Scheduler, worker: Worker, __: Client) -> None:
        assert private.memory_limit(worker) == 2**31
        assert 0 < worker.memory_manager.memory_pause_fraction < 1
        private.stay_paused(worker)
        worker.status = Status.paused
        worker.memory_manager._maybe_pause_or_unpause(worker, 0)
        assert worker.status is Status.paused

    with_a_worker(look)


@of(private.heartbeat_seconds, private.now)
def test_workers_are_heard_of_by_that_clock() -> None:
    async def look(scheduler: Scheduler, worker: Worker, _: Client) -> None:
        before = scheduler.workers[worker.address].last_seen
        await worker.heartbeat()
        assert before < scheduler.workers[worker.address].last_seen <= private.now()
        assert 0 < private.heartbeat_seconds(1) < private.heartbeat_seconds(1000)

    with_a_worker(look)


_begun, _may_end = threading.Event(), threading.Event()


def _wait() -> bool:
    _begun.set()
    return _may_end.wait(60)


class Noting(WorkerPlugin):  # type: ignore[misc]  # distributed publishes no types for it
    """Keeps in which states tasks were."""

    name = "noting"

    def __init__(self) -> None:
        self.states: list[str] = []

    def transition(self, key: object, start: object, finish: str, **_: object) -> None:
        del start
        if key == "next":
            self.states.append(finish)


@of(private.waiting, private.next_call, "WAITS")
def test_workers_show_the_call_that_comes_next() -> None:
    async def look(_: Scheduler, worker: Worker, client: Client) -> None:
        worker.plugins["noting"] = noting = Noting()
        assert private.next_call(worker, pow) is None
        first = client.submit(_wait, resources=POOL)
        following = client.submit(pow, 2, 3, key="next", resources=POOL)
        try:
            while private.waiting(worker) != 1:
                assert not following.done()
                await asyncio.sleep(0.001)
            assert noting.states[-1] == private.WAITS
            assert private.next_call(worker, pow) == (2, 3)
            assert private.next_call(worker, abs) is None
        finally:
            _may_end.set()
        assert [await first, await following] == [True, 8]

    assert private.WAITS in typing.get_args(worker_state_machine.TaskStateState)
    with_a_worker(look)


def _states_of_plugin() -> list[str]:
    states: list[str] = private.plugin_here("noting").states
    return states


@of(private.plugin_here)
def test_tasks_reach_the_plugins_of_their_worker() -> None:
    async def look(_: Scheduler, worker: Worker, client: Client) -> None:
        worker.plugins["noting"] = noting = Noting()
        noting.states.append("known")
        assert await client.submit(_states_of_plugin) == ["known"]

    with_a_worker(look)


class Finding(private.FetchingWorker):
    """A worker that may find results of others."""

    found: Mapping[str, object]

    async def fetch(self, worker: str, keys: Collection[str], nbytes: int) -> Mapping[str, object]:
        assert worker != self.address
        assert nbytes > 0
        return {key: value for key, value in self.found.items() if key in keys}


class Transitions(SchedulerPlugin):  # type: ignore[misc]  # distributed publishes no types for it
    """Keeps what came with transitions."""

    name = "transitions"

    def __init__(self) -> None:
        self.said: dict[tuple[str, str], Mapping[str, object]] = {}

    def transition(self, key: str, start: str, finish: str, *_: object, **said: object) -> None:
        del start
        self.said[key, finish] = said


async def _fetched(found: Mapping[str, object]) -> tuple[int, int, float]:
    """What a task on another worker reads, how many results were sent, and the seconds that it took."""
    transitions = Transitions()
    options = {"port": 0, "dashboard_address": "127.0.0.1:0", "plugins": (transitions,)}
    async with (
        Scheduler(**LOOPBACK, **options) as scheduler,
        Finding(scheduler.address, name="a", **LOOPBACK) as a,
        Finding(scheduler.address, name="b", **LOOPBACK) as b,
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        b.found = found
        made = client.submit(abs, -1, key="made", workers=["a"])
        read = await client.submit(abs, made, key="read", workers=["b"])
        said = transitions.said["read", "memory"]
        assert said["startstops"]
        return read, a.transfer_outgoing_count_total, private.transfer_seconds(said)


@of(private.FetchingWorker, private.transfer_seconds)
@pytest.mark.parametrize(("found", "read", "sent"), [({"made": 7}, 7, 0), ({}, 1, 1)], ids=["found", "sent"])
def test_workers_fetch_results_in_another_way_if_they_can(found: Mapping[str, object], read: int, sent: int) -> None:
    *got, seconds = asyncio.run(asyncio.wait_for(_fetched(found), 60))
    assert got == [read, sent]
    assert seconds > 0


def _fail() -> None:
    raise ValueError("no such muon")


@of(private.error_text)
def test_the_text_of_an_error_comes_with_its_transition() -> None:
    transitions = Transitions()

    async def look(_: Scheduler, __: Worker, client: Client) -> None:
        with pytest.raises(ValueError, match="no such muon"):
            await client.submit(_fail, key="fails")
        assert "no such muon" in str(transitions.said["fails", "erred"]["exception_text"])
        assert "no such muon" in private.error_text(transitions.said["fails", "erred"])

    with_a_worker(look, transitions)


@of(private.beside_the_loop)
def test_long_work_is_done_in_another_thread() -> None:
    assert asyncio.run(private.beside_the_loop(threading.get_ident)) != threading.get_ident()


@of(private.silenced)
def test_logs_say_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.getLogger("distributed"), "handlers", [handler])
    before = handler.level
    with private.silenced():
        assert handler.level == logging.CRITICAL
    assert handler.level == before


@of(private.look_up_versions)
def test_versions_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    private.look_up_versions()
    again: list[str] = []
    monkeypatch.setattr("distributed.versions.version", again.append)
    private.look_up_versions()
    assert again == []
    assert "tornado.platform.asyncio" in sys.modules


def test_nothing_of_ours_hides_something_of_dasks() -> None:
    mixed = {SecuredScheduler: Scheduler, SecuredWorker: Worker}
    ours = [private.ListeningServer, private.SchedulerWithin, private.FetchingWorker, *mixed]
    meant = {"start_http_server", "listen", "listeners", "gather_dep", "external_address"}
    own = {name for kind in ours for name in vars(kind) if not name.startswith(("__", "_abc_"))} - meant
    assert [name for name in own if any(hasattr(of_dask, name) for of_dask in mixed.values())] == []


# It is used nowhere else.


def _modules() -> dict[str, ast.Module]:
    return {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(FILE.parent.glob("*.py"))}


def _outside() -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, one in _modules().items() if name != FILE.name for node in ast.walk(one)]


def test_every_function_that_uses_private_parts_is_tested() -> None:
    used = [node for node in _modules()[FILE.name].body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    classes = [node for node in _modules()[FILE.name].body if isinstance(node, ast.ClassDef)]
    assert sorted(TESTED) == sorted([node.name for node in [*used, *classes]] + ["WAITS"])


def test_every_function_says_with_which_versions_it_was_seen() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    said = {one.name: ast.get_docstring(one) or "" for one in _modules()[FILE.name].body if isinstance(one, kinds)}
    assert [name for name, text in said.items() if not re.search(r"(distributed|Tornado) \d+\.\d+ to \d", text)] == []


def test_other_modules_import_what_is_documented() -> None:
    found = [(name, node.module or "") for name, node in _outside() if isinstance(node, ast.ImportFrom)]
    found += [(name, one.name) for name, node in _outside() if isinstance(node, ast.Import) for one in node.names]
    foreign = [one for one in found if one[1].partition(".")[0] in {"dask", "distributed", "tornado"}]
    assert len(foreign) > 5
    assert [f"{name} imports {module}" for name, module in foreign if module not in DOCUMENTED] == []


def test_other_modules_touch_nothing_that_is_fenced() -> None:
    touched = [(name, node) for name, node in _outside() if isinstance(node, ast.Attribute)]
    touched = [(name, node) for name, node in touched if "logging.getLogger" not in ast.unparse(node.value)]
    assert [f"{name}:{node.lineno} .{node.attr}" for name, node in touched if node.attr in FENCED] == []
    defined = [(name, node) for name, node in _outside() if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [f"{name}:{node.lineno} {node.name}" for name, node in defined if node.name in FENCED] == []


def test_other_modules_touch_no_underscores_but_their_own() -> None:
    touched = [(name, node) for name, node in _outside() if isinstance(node, ast.Attribute)]
    touched = [
        (name, node) for name, node in touched if re.match("_[^_]", node.attr) and ast.unparse(node) != "os._exit"
    ]
    own = {node.attr for _, node in touched if isinstance(node.ctx, ast.Store)}
    own |= {node.name for _, node in _outside() if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    foreign = [one for one in touched if ast.unparse(one[1].value) != "self" or one[1].attr not in own]
    assert [f"{name}:{node.lineno} {ast.unparse(node)}" for name, node in foreign] == []
