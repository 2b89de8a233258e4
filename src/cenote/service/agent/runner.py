"""Run one instance: wait for its files and a slot, make its folder, start it, and see it to its end."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable

from cenote.common.shell import start_apart
from cenote.execution.worker.process.template import ForkRequest
from cenote.service.agent.attempts import (
    BadConstantError,
    EndRequest,
    HeldRun,
    cause_of,
    is_full,
    variables_of,
    was_asked_to_end,
    words_of_end,
    words_of_refusal,
)
from cenote.service.agent.children import (
    PATIENCE,
    ChildEnd,
    NoTemplateError,
    Templates,
    ask_to_end,
    end_strays,
    exit_of,
    reap,
    signal_group,
)
from cenote.service.agent.folders import AgentFolders, BadNameError
from cenote.service.agent.function_calls import calling_words
from cenote.service.agent.received_files import NoFileError, ReceivedFiles
from cenote.service.client.python_call import PythonCall
from cenote.service.protocol import AttemptEnded, PlacedFile, Start

_SHELL = "/bin/sh"
_DAMAGED = "files of its own were removed"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LOOK_FOR_ROOM, _TO_FIND_ROOM = 1.0, 30.0
"""Seconds between two looks at a disk that is full, and until what waits for room may go to another worker."""
_SAME_MOMENT = 2.0
"""Seconds in which the processes of a job are asked to end."""


class InstanceRunner:
    """Everything that instances of one agent share."""

    def __init__(
        self,
        folders: AgentFolders,
        *,
        slots: int,
        files: ReceivedFiles,
        python: Templates,
        own_children: Callable[[], set[int]],
        on_damage: Callable[[str], None] = lambda _: None,
        on_hindrance: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._folders = folders
        self._slots = asyncio.Semaphore(slots)
        self._files = files
        self._python = python
        self._own_children = own_children
        self._on_damage = on_damage
        """Told why nothing more can be begun here."""
        self._on_hindrance = on_hindrance
        """Told why nothing can be begun here for now, or nothing when it can again."""
        self._hindered = ""
        self._pool_files = asyncio.Event()
        self._pool_files.set()
        self._pool_problem = ""
        self._waiting = 0
        """Instances that wait for files or for a slot."""
        self._begun = 0
        """Instances that run, or are being started: what cannot be told whose it is may be theirs."""
        self.pids: set[int] = set()
        """Of instances that run."""

    async def run(self, held: HeldRun, on_start: Callable[[HeldRun], None]) -> AttemptEnded:
        """From Start to its end, however that comes."""
        with self._files.kept(held.start.files):
            return await self._run(held, on_start)

    async def _run(self, held: HeldRun, on_start: Callable[[HeldRun], None]) -> AttemptEnded:
        try:
            if self._need_not_wait(held):
                await self._slots.acquire()
            elif (request := await self._wait_for_all(held)) is not None:
                return held.end(request.cause, request.message)
        except (NoFileError, OSError) as problem:
            return self._refused(held, str(problem), files=())
        try:
            return await self._in_slot(held, on_start)
        finally:
            self._slots.release()

    async def place_pool_files(self, arrived: Awaitable[None], place: Callable[[], None]) -> None:
        """Instances wait until the files of the pool are there."""
        self._pool_files.clear()
        try:
            await arrived
            await asyncio.to_thread(place)
            self._pool_problem = ""
        except (NoFileError, BadNameError) as problem:
            self._pool_problem = f"files of the pool are missing: {problem}"
        except OSError as problem:
            words = words_of_refusal(problem, self._folders.jobs)
            self._pool_problem = f"files of the pool are missing: {words}"
        finally:
            self._pool_files.set()

    def _need_not_wait(self, held: HeldRun) -> bool:
        """Whether it can begin in this moment: nothing has to watch whether somebody asks for its end meanwhile."""
        waits = held.asked.done() or held.start.files or not self._pool_files.is_set() or self._pool_problem
        return not waits and not self._waiting and not self._slots.locked()

    async def _wait_for_all(self, held: HeldRun) -> EndRequest | None:
        """For its files and a slot, unless somebody asks for its end before; then what they say."""
        self._waiting += 1  # who comes after it does not overtake it
        try:
            return await self._unless_asked(held, self._have_all(held))
        finally:
            self._waiting -= 1

    async def _have_all(self, held: HeldRun) -> None:
        await self._files.have(held.start.files)
        await self._pool_files.wait()
        if self._pool_problem:
            raise NoFileError(self._pool_problem)
        await self._slots.acquire()

    async def _unless_asked(self, held: HeldRun, work: Awaitable[None]) -> EndRequest | None:
        """Do this, unless somebody asks for the end before; then what they say."""
        doing = asyncio.ensure_future(work)
        await asyncio.wait((doing, held.asked), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return None
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
        if doing.cancelled() or doing.exception():
            return held.asked.result()
        return None  # it was done after all; the next step finds out

    async def _in_slot(self, held: HeldRun, on_start: Callable[[HeldRun], None]) -> AttemptEnded:
        if held.asked.done():  # before it began: it never does
            before = held.asked.result()
            return held.end(before.cause, before.message)
        begun = time.monotonic()
        self._begun += 1
        try:
            end_or_how = await self._seen_to_its_end(held, on_start)
        finally:
            self._begun -= 1
        if isinstance(end_or_how, AttemptEnded):
            return end_or_how
        end, request = end_or_how
        seconds = time.monotonic() - begun
        await end_strays(lambda: self._own_children() | self.pids, lambda: held.start.job if self._begun else None)
        if request is None and was_asked_to_end(end):
            request = await self._asked_together(held)
        return self._told(held, end, request, seconds)

    async def _seen_to_its_end(
        self, held: HeldRun, on_start: Callable[[HeldRun], None]
    ) -> AttemptEnded | tuple[ChildEnd, EndRequest | None]:
        """How its process ended, and who ended it; where it has none, how that came."""
        try:
            pid = await self._started_in_some_room(held)
        except (BadConstantError, BadNameError, NoTemplateError) as problem:
            return held.end("refused", str(problem))
        except OSError as problem:
            folder = self._folders.jobs / held.start.job
            return self._refused(held, words_of_refusal(problem, folder), files=held.start.files)
        if isinstance(pid, AttemptEnded):
            return pid
        held.pid, held.started_at = pid, time.time()
        self.pids.add(pid)
        try:
            on_start(held)
            request = await self._watched(held, pid)
            return reap(pid), request
        finally:
            self.pids.discard(pid)

    def _refused(self, held: HeldRun, words: str, *, files: Iterable[PlacedFile]) -> AttemptEnded:
        """One that could not be begun; where that is so for all, because something is missing here, another worker
        begins it."""
        if self._folders.is_whole(files):
            return held.end("refused", words)
        self._on_damage(_DAMAGED)
        return held.end("evicted", f"this worker starts nothing more: {_DAMAGED}")

    async def _asked_together(self, held: HeldRun) -> EndRequest | None:
        """Who asked an instance to end that was: a batch system that ends a job asks all its processes at once, and so
        the agent in the same moment."""
        await asyncio.wait((held.asked,), timeout=_SAME_MOMENT)
        return held.asked.result() if held.asked.done() else None

    async def _started_in_some_room(self, held: HeldRun) -> int | AttemptEnded:
        """On a full disk it waits, in its slot, so that nothing else is begun there in vain; after some time it goes to
        another worker, if there is one."""
        until = time.monotonic() + _TO_FIND_ROOM
        while True:
            try:
                if is_full(self._folders.jobs):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folders.jobs))  # as it would
                started = await self._started(held)
            except OSError as problem:
                if problem.errno not in _NO_ROOM:
                    raise
                words = words_of_refusal(problem, self._folders.jobs)
            else:
                self._tell_hindrance("")
                return started
            await asyncio.to_thread(self._folders.remove, held.start.job)
            self._tell_hindrance(words)
            await asyncio.wait((held.asked,), timeout=_LOOK_FOR_ROOM)
            if held.asked.done():
                asked = held.asked.result()
                return held.end(asked.cause, asked.message)
            if time.monotonic() > until:
                return held.end("evicted", words)

    def _tell_hindrance(self, words: str) -> None:
        if words != self._hindered:
            self._hindered = words
            self._on_hindrance(words)

    async def _started(self, held: HeldRun) -> int | AttemptEnded:
        start = held.start
        variables = variables_of(start)
        folder = self._folders.job(start.job)
        folder.mkdir(mode=0o700)
        call = start.terms.python
        in_place = call.read_in_place if call else ()
        if placed := [file for file in start.files if file.name not in in_place]:
            await asyncio.to_thread(self._folders.place, placed, folder)
        out, err = self._folders.output(start.job, "stdout"), self._folders.output(start.job, "stderr")
        if call is not None:
            own = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
            asked = ForkRequest(
                words=self._python_words(start, call),
                folder=str(folder),
                path=(str(folder), *own),
                variables=variables,
                stdout=str(out),
                stderr=str(err),
            )
            return await self._python.start(asked, call.warm)
        command = (_SHELL, "-c", start.terms.command)
        try:
            process = start_apart(command, folder=folder, variables=variables, stdout=out, stderr=err)
        except ValueError as problem:
            return held.end("refused", f"its command cannot be run: {problem}")
        process.returncode = 0  # it is waited for by its number, with what it used
        return process.pid

    def _python_words(self, start: Start, call: PythonCall) -> tuple[str, ...]:
        """A module and its arguments."""
        if not call.function:
            return (call.module, *call.arguments)
        sent = {file.name: self._folders.files / file.digest for file in start.files}
        return calling_words(sent[call.function], sent[call.calls], start.instance, call.limit)

    async def _watched(self, held: HeldRun, pid: int) -> EndRequest | None:
        """Until its process has ended; who ended it, if somebody did."""
        exited = asyncio.ensure_future(exit_of(pid))
        await asyncio.wait((exited, held.asked), timeout=held.start.terms.timeout, return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            return None
        limit = held.start.terms.timeout
        request = held.asked.result() if held.asked.done() else EndRequest("timeout", f"it ran longer than {limit:g} s")
        grace = held.start.terms.grace
        ask_to_end(pid, alone=grace is not None)  # one that needs time may need its own children in it
        await asyncio.wait((exited,), timeout=PATIENCE if grace is None else grace)
        signal_group(pid, signal.SIGKILL)
        await exited
        return request

    def _told(self, held: HeldRun, end: ChildEnd, request: EndRequest | None, seconds: float) -> AttemptEnded:
        start = held.start
        words = (
            request.message
            if request
            else words_of_end(
                end, stderr=self._folders.output(start.job, "stderr"), folder=self._folders.jobs / start.job
            )
        )
        return AttemptEnded(
            task=start.task,
            instance=start.instance,
            attempt=start.attempt,
            cause=request.cause if request else cause_of(end),
            exit_code=end.exit_code,
            signal=end.signal,
            message=words,
            seconds=seconds,
            cpu_seconds=end.cpu_seconds,
            peak_memory=end.peak_memory,
        )
