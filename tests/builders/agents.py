"""A hub and agents on this machine, as the service has them: real processes, waited for by what they say."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from cenote.common.certificates.authority import RunIdentities, identities_of
from cenote.common.shell import ALONE, Process, end_processes, start_process
from cenote.service.client.definitions import TaskTerms
from cenote.service.protocol import (
    Acknowledge,
    AttemptEnded,
    AttemptKey,
    Leaving,
    Output,
    ResultFile,
    Start,
    Started,
    Stop,
    ToAgent,
)
from cenote.service.server.hub import AgentJoined, AgentLeft, AgentSaid, Hub, HubEvent, HubLimits

LIMIT = 60.0
"""Seconds in which anything happens that a test waits for."""
T = TypeVar("T")


def bounded(story: Coroutine[Any, Any, T]) -> T:
    """Run a test that is a coroutine."""
    return asyncio.run(asyncio.wait_for(story, 2 * LIMIT))


class AgentStory:
    """A hub, and what its agents said."""

    def __init__(self, folder: Path, *, acknowledges: bool = True) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.acknowledges = acknowledges
        self.identities: RunIdentities = identities_of("service")
        self.events: list[HubEvent] = []
        self.outputs: dict[tuple[AttemptKey, str], bytearray] = defaultdict(bytearray)
        self.results: dict[tuple[AttemptKey, str], bytes] = {}
        self.result_count = 0
        self.agents: list[Process] = []
        self.hub = self._new_hub()
        self._changed = asyncio.Condition()
        self._taking: asyncio.Task[None] | None = None
        self._partial: dict[tuple[AttemptKey, str], bytearray] = {}

    async def __aenter__(self) -> Self:
        self.identities.workers.write(self.folder / "identity" / "service.pem")
        self.scratch.mkdir()
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(end_processes, self.agents, patience=20)
        await self.close()

    def _new_hub(self) -> Hub:
        return Hub(self.identities.driver, known_output=self._known, limits=HubLimits(ping_every=0.5))

    def _known(self, key: AttemptKey) -> tuple[int, int]:
        return len(self.outputs[key, "stdout"]), len(self.outputs[key, "stderr"])

    async def open(self) -> None:
        """A new hub, on the same port if there was one before."""
        port = self.hub.port
        self.hub = self._new_hub()
        await self.hub.open("127.0.0.1", [port])
        self._taking = asyncio.create_task(self._take())

    async def close(self) -> None:
        """As if it was killed: connections break, nothing is said."""
        assert self._taking is not None, "it is open"
        self._taking.cancel()
        await self.hub.close()

    async def _take(self) -> None:
        while True:
            event = await self.hub.events.get()
            if isinstance(event, AgentSaid):
                self._note(event)
            if isinstance(event, AgentJoined):
                self.hub.greet(event.worker)
            async with self._changed:
                self.events.append(event)
                self._changed.notify_all()

    def _note(self, event: AgentSaid) -> None:
        match event.message:
            case Output() as said:
                kept = self.outputs[said.key, said.stream]
                assert said.offset == len(kept), "output comes once and in order"
                kept += said.data
            case ResultFile() as said:
                if said.offset == 0:
                    self._partial[said.key, said.name] = bytearray()
                assert said.offset == len(self._partial[said.key, said.name])
                self._partial[said.key, said.name] += said.data
                if said.last:
                    self.results[said.key, said.name] = bytes(self._partial[said.key, said.name])
                    self.result_count += 1
            case AttemptEnded() as said if self.acknowledges:
                self.acknowledge(event.worker, said.key)
            case _:
                pass

    def acknowledge(self, worker: str, key: AttemptKey) -> None:
        self.hub.send(worker, Acknowledge(task=key.task, instance=key.instance, attempt=key.attempt))

    async def until(self, happened: Callable[[], T | None]) -> T:
        """Wait for something that events bring about."""
        async with asyncio.timeout(LIMIT), self._changed:
            while not (found := happened()):
                await self._changed.wait()
            return found

    def command(self, name: str = "w1", *, slots: int = 1, options: tuple[str, ...] = ()) -> list[str]:
        identity = self.folder / "identity" / "service.pem"
        hub = f"127.0.0.1:{self.hub.port}"
        words = ["--hub", hub, "--identity", str(identity), "--name", name, "--pool", "p", "--slots", str(slots)]
        module = "cenote.service.agent.main"
        return [sys.executable, *ALONE, "-m", module, *words, "--scratch", str(self.scratch), *options]

    def launch(self, name: str = "w1", *, slots: int = 1, options: tuple[str, ...] = ()) -> Process:
        """Start an agent and go on."""
        command = self.command(name, slots=slots, options=options)
        log = self.folder / f"{name}.err"
        secret = {"CENOTE_SECRET": "must not be seen", "FROM_THE_NODE": "is seen"}
        process = start_process(command, stderr=log, stdout=log, variables=secret)
        self.agents.append(process)
        return process

    async def agent(self, name: str = "w1", *, slots: int = 1, options: tuple[str, ...] = ()) -> Process:
        """Start an agent, and wait until it is there."""
        process = self.launch(name, slots=slots, options=options)
        await self.joined(name)
        return process

    async def joined(self, name: str = "w1", times: int = 1) -> AgentJoined:
        def found() -> AgentJoined | None:
            all_of_it = [one for one in self.events if isinstance(one, AgentJoined) and one.worker == name]
            return all_of_it[times - 1] if len(all_of_it) >= times else None

        return await self.until(found)

    async def left(self, name: str = "w1") -> AgentLeft:
        return await self.until(
            lambda: next((one for one in self.events if isinstance(one, AgentLeft) and one.worker == name), None)
        )

    async def leaving(self) -> Leaving:
        return await self.until(lambda: next(iter(self.said(Leaving)), None))

    def send(self, message: ToAgent, worker: str = "w1") -> None:
        assert self.hub.send(worker, message), f"{worker} is not connected"

    def start(self, command: str = "", *, worker: str = "w1", **more: Any) -> AttemptKey:
        """Have an instance started; a task of its own unless it is named."""
        start = a_start(command, **more)
        self.send(start, worker)
        return start.key

    def stop(self, key: AttemptKey, reason: str = "", worker: str = "w1") -> None:
        self.send(Stop(task=key.task, instance=key.instance, attempt=key.attempt, reason=reason), worker)

    def said(self, kind: type[T]) -> list[T]:
        return [one.message for one in self.events if isinstance(one, AgentSaid) and isinstance(one.message, kind)]

    def ends_of(self, key: AttemptKey) -> list[AttemptEnded]:
        return [one for one in self.said(AttemptEnded) if one.key == key]

    async def started(self, key: AttemptKey) -> Started:
        return await self.until(lambda: next((one for one in self.said(Started) if one.key == key), None))

    async def ended(self, key: AttemptKey) -> AttemptEnded:
        return await self.until(lambda: next(iter(self.ends_of(key)), None))

    async def printed(self, key: AttemptKey, text: str, stream: str = "stdout") -> None:
        """Wait until it printed this."""
        await self.until(lambda: text.encode() in self.outputs[key, stream])

    async def run(self, command: str = "", *, worker: str = "w1", **more: Any) -> AttemptEnded:
        """Have an instance started, and wait for its end."""
        return await self.ended(self.start(command, worker=worker, **more))

    def text(self, key: AttemptKey, stream: str = "stdout") -> str:
        return bytes(self.outputs[key, stream]).decode()

    def result(self, key: AttemptKey, name: str) -> bytes:
        return self.results[key, name]

    def root(self) -> Path:
        """The folder of the one agent there is."""
        (found,) = self.scratch.iterdir()
        return found


def a_start(command: str = "", *, task: str | None = None, **more: Any) -> Start:
    """A message that starts an instance; what is no term of its task is said of the attempt."""
    terms = {name: more.pop(name) for name in TaskTerms.__struct_fields__ if name in more}
    values = {"instance": 0, "attempt": 1, "job": uuid4().hex, **more}
    return Start(task=task or uuid4().hex, terms=TaskTerms(name="t", command=command, **terms), **values)


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    """Wait until a process that is not a child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), LIMIT)
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
