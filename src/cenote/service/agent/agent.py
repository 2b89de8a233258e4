"""Be an agent: stay connected to the service, run what it says, tell what happens, and end in good order.

What runs does not depend on the connection: while there is none, instances go on, and their ends wait to be told.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import socket
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, assert_never

from cenote import __version__
from cenote.common.certificates.identity import refusal_in_words
from cenote.service.agent.attempts import Departure, HeldRun
from cenote.service.agent.children import PATIENCE, Templates, end_strays
from cenote.service.agent.folders import AgentFolders, Guard
from cenote.service.agent.options import DEFAULT_WARM, AgentOptions, ServiceLink, tell_end, tell_news
from cenote.service.agent.received_files import ReceivedFiles
from cenote.service.agent.runner import InstanceRunner
from cenote.service.protocol import (
    Acknowledge,
    AttemptEnded,
    AttemptKey,
    Cause,
    DrainAgent,
    FileChunk,
    FileRefused,
    Hello,
    Hindered,
    Leaving,
    Ping,
    Pong,
    PoolFiles,
    ProtocolError,
    Shutdown,
    Start,
    Started,
    Stop,
    ToAgent,
    ToService,
    TurnedAway,
    Welcome,
)

_TELL_EVERY = 0.2
"""Seconds between two looks at what instances print."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
"""Seconds between attempts to connect."""
_DUPLICATE_PATIENCE = 60.0
"""Seconds in which another of the same name may turn out to be dead."""
_REMEMBERED = 10_000
"""Ends that were acknowledged and are remembered, so that nothing is run twice."""
_TOLD_AGAIN = 100
"""Of those, the ones that a service hears of when it is there again."""


class _TurnedAwayError(Exception):
    """What the service said."""


class Agent:
    """One process, from its first connection to its end."""

    def __init__(self, options: AgentOptions, *, context: ssl.SSLContext, folders: AgentFolders, guard: Guard) -> None:
        self._options, self._context, self._folders, self._guard = options, context, folders, guard
        self._session = secrets.token_hex(16)
        self._held: dict[AttemptKey, HeldRun] = {}
        self._over: OrderedDict[AttemptKey, AttemptEnded] = OrderedDict()
        self._link: ServiceLink | None = None
        self._alone_since = time.monotonic()
        self._work: set[asyncio.Task[None]] = set()
        self._something_runs = asyncio.Event()
        self._changed = asyncio.Event()
        """Something was acknowledged, or the link changed."""
        self._departure = Departure.of_job(options.walltime)
        self._leaves = ""
        """Why nothing more is begun; empty where it is."""
        self._hindrance = ""
        """Why nothing can be begun for now; empty where it can."""
        self._end: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
        """Why it ends, and with which exit code."""
        self._python = Templates(options.warm or DEFAULT_WARM, folders.root)
        self._files = ReceivedFiles(folders.files, self._post)
        self._runner = InstanceRunner(
            folders,
            slots=options.slots,
            files=self._files,
            python=self._python,
            own_children=lambda: {self._guard.pid, *self._python.pids},
            on_damage=self._drain,
            on_hindrance=self._tell_hindrance,
        )

    def end(self, reason: str, code: int = 0) -> None:
        """Begin to end; whoever says so first is heard."""
        if not self._end.done():
            self._end.set_result((reason, code))

    async def run(self) -> tuple[str, int]:
        """Until the end: why, and the exit code."""
        if self._options.warm:
            self._do(self._python.warm_up())
        if self._departure is not None:
            self._do(self._leave_in_time(self._departure))
        staying = asyncio.create_task(self._stay_connected())
        try:
            reason, code = await self._end
            self._leaves = self._leaves or reason
            self._tell_leaving()
            await self._end_instances(reason, "lost" if code else "evicted")
        finally:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
            for task in tuple(self._work):
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)
            self._python.close()
            await end_strays(lambda: {self._guard.pid}, lambda: None)
        return reason, code

    async def _end_instances(self, reason: str, cause: Cause) -> None:
        for held in self._held.values():
            held.ask_to_end(cause, f"its worker {self._options.name} ended: {reason}")
        deadline = time.monotonic() + 2 * PATIENCE
        while any(held.ended is None for held in self._held.values()) or (self._held and self._link):
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._changed.wait()
            if time.monotonic() >= deadline:
                return

    # the connection

    async def _stay_connected(self) -> None:
        wait, told = _FIRST_WAIT, ""
        while True:
            try:
                link = await ServiceLink.open(self._options.host, self._options.port, self._context)
                try:
                    await self._converse(link)
                finally:
                    if self._link is link:
                        self._alone_since, wait, told = time.monotonic(), _FIRST_WAIT, ""
                    self._link = None
                    self._changed.set()
                    await link.close()
            except _TurnedAwayError as problem:
                words, limit = str(problem), min(self._options.orphan, _DUPLICATE_PATIENCE)
            except ProtocolError as problem:
                words, limit = str(problem), self._options.orphan
            except EOFError:
                words, limit = "the service closed the connection", self._options.orphan
            except OSError as problem:
                words, limit = refusal_in_words(problem), self._options.orphan
            if words != told:
                _say(f"not connected to {self._options.host}:{self._options.port}: {words}")
                told = words
            if time.monotonic() - self._alone_since >= limit:
                self.end(f"no service for {limit:g} s: {words}", 1)
                return
            await asyncio.sleep(min(wait, max(0.0, self._alone_since + limit - time.monotonic())))
            wait = min(2 * wait, _LONGEST_WAIT)

    async def _converse(self, link: ServiceLink) -> None:
        """Until the link breaks, which it does by an exception."""
        await link.send(self._hello())
        answer = await link.receive()
        if isinstance(answer, TurnedAway):
            if not answer.again:
                self.end(f"turned away: {answer.reason}", 1)
            raise _TurnedAwayError(answer.reason)
        if not isinstance(answer, Welcome):
            raise ProtocolError("a service begins with Welcome")
        self._link = link
        self._begin_telling(answer)
        teller = asyncio.create_task(self._tell_regularly(link))
        try:
            while True:
                await self._hear(await link.receive())
        finally:
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)

    def _hello(self) -> Hello:
        return Hello(
            name=self._options.name,
            pool=self._options.pool,
            slots=self._options.slots,
            session=self._session,
            host=socket.gethostname(),
            pid=os.getpid(),
            versions={"python": platform.python_version(), "cenote": __version__},
            leaves_in=self._departure.leaves_in if self._departure else None,
            held=tuple(held.as_held for held in self._held.values()),
            over=tuple(self._over)[-_TOLD_AGAIN:],
        )

    def _begin_telling(self, welcome: Welcome) -> None:
        known = {key: (out, err) for key, out, err in welcome.outputs}
        for key, held in self._held.items():
            held.sent["stdout"], held.sent["stderr"] = known.get(key, (0, 0))
            held.results.clear()
            if held.ended is not None:
                self._do(self._tell_end(held))
        self._files.ask_again()
        if self._leaves:
            self._tell_leaving()
        if self._hindrance:
            self._tell_hindrance(self._hindrance)

    def _tell_hindrance(self, words: str) -> None:
        self._hindrance = words
        self._post(Hindered(reason=words))

    async def _tell_regularly(self, link: ServiceLink) -> None:
        with suppress(OSError, EOFError):
            while True:
                running = [held for held in self._held.values() if held.pid and held.ended is None]
                if not running:
                    self._something_runs.clear()
                    await self._something_runs.wait()
                for held in running:
                    await tell_news(link, held, self._folders)
                await asyncio.sleep(_TELL_EVERY)

    def _post(self, message: ToService) -> None:
        if self._link is not None:
            self._link.post(message)

    # what the service says

    async def _hear(self, message: ToAgent) -> None:
        match message:
            case Start():
                self._start(message)
            case Stop():
                self._stop(message)
            case Acknowledge():
                self._acknowledge(message)
            case PoolFiles():
                arrived = self._files.have(message.files)
                place = self._runner.place_pool_files(
                    arrived, lambda: self._folders.place(message.files, self._folders.jobs)
                )
                self._do(place)
                await asyncio.sleep(0)  # it holds back what comes after it
            case FileChunk() | FileRefused():
                self._files.receive(message)
            case DrainAgent():
                self._drain("it drains")
            case Shutdown():
                self.end("the service shut it down")
            case Ping():
                self._post(Pong(number=message.number))
            case Welcome() | TurnedAway():
                raise ProtocolError("a service says Welcome once")
            case _:
                assert_never(message)

    def _start(self, start: Start) -> None:
        if (over := self._over.get(start.key)) is not None:
            self._post(over)
            return
        if (held := self._held.get(start.key)) is not None:
            if held.ended is not None:
                self._do(self._tell_end(held))
            elif held.pid is not None:
                self._tell_start(held)
            return
        held = self._held[start.key] = HeldRun(start, asyncio.get_running_loop().create_future())
        if not self._leaves and self._departure and (reason := self._departure.why_not(start.terms.timeout)):
            self._drain(reason)
        if self._leaves:
            held.ask_to_end("evicted", f"this worker starts nothing more: {self._leaves}")
        self._do(self._run(held))

    async def _run(self, held: HeldRun) -> None:
        ended = await self._runner.run(held, self._tell_start)
        held.ended = ended
        self._changed.set()
        await self._tell_end(held)

    def _tell_start(self, held: HeldRun) -> None:
        assert held.pid is not None, "it runs"
        self._something_runs.set()
        key = held.start.key
        self._post(Started(task=key.task, instance=key.instance, attempt=key.attempt, pid=held.pid, at=held.started_at))

    async def _tell_end(self, held: HeldRun) -> None:
        link = self._link
        if link is not None:
            with suppress(OSError, EOFError):  # the next connection tells it
                await tell_end(link, held, self._folders)

    def _stop(self, stop: Stop) -> None:
        if (held := self._held.get(stop.key)) is not None:
            held.ask_to_end("stopped", stop.reason or "it was stopped")
        elif (over := self._over.get(stop.key)) is not None:
            self._post(over)
        else:  # its Start is still on the way, or was lost: it must not be begun any more
            ended = AttemptEnded(
                task=stop.task,
                instance=stop.instance,
                attempt=stop.attempt,
                cause="stopped",
                message=stop.reason or "it was stopped before it began",
            )
            self._remember(ended)
            self._post(ended)

    def _acknowledge(self, said: Acknowledge) -> None:
        held = self._held.get(said.key)
        if held is None or held.ended is None:
            return
        del self._held[said.key]
        self._remember(held.ended)
        self._do(self._remove(held.start.job))
        self._changed.set()
        self._end_if_drained()

    async def _remove(self, job: str) -> None:
        self._folders.remove_output(job)
        if not self._folders.remove_if_empty(job):
            await asyncio.to_thread(self._folders.remove, job)

    def _remember(self, ended: AttemptEnded) -> None:
        self._over[ended.key] = ended
        while len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)

    def _drain(self, reason: str) -> None:
        """Begin nothing more, and go when what runs is over."""
        if not self._leaves:
            self._leaves = reason
            self._tell_leaving()
        for held in self._held.values():
            if held.pid is None:
                held.ask_to_end("evicted", f"this worker starts nothing more: {self._leaves}")
        self._end_if_drained()

    def _tell_leaving(self) -> None:
        is_time = self._departure is not None and self._leaves in self._departure.reasons
        self._post(Leaving(reason=self._leaves, walltime=is_time))

    async def _leave_in_time(self, departure: Departure) -> None:
        """Before the batch system ends it: what still runs then is begun again elsewhere."""
        await departure.time_to_leave()
        self._drain(departure.nearly_over)
        await departure.time_to_give_up()
        for held in self._held.values():
            held.ask_to_end("evicted", f"its worker {self._options.name} had to go: {self._leaves}")

    def _end_if_drained(self) -> None:
        if self._leaves and not self._held:
            self.end("drained")

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _say(f"a fault of Cenote: {problem!r}")
            self.end(f"a fault of Cenote: {problem!r}", 1)


def _say(text: str) -> None:
    """For the log of the job. Where that cannot be written, for the disk is full, the agent goes on without."""
    with suppress(OSError):
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()
