"""Tell the service of an attempt: what it prints, its results, its end, in this order."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from cenote.client.python_call import RETURNED
from cenote.service.agent.attempts import HeldRun
from cenote.service.agent.folders import AgentFolders, matching, readable_name
from cenote.service.agent.link import ServiceLink
from cenote.service.protocol import CHUNK, STREAMS, Output, ResultFile, StreamName


async def tell_news(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    """What is new of one that runs."""
    async with held.telling:
        if held.ended is None:
            await _tell_output(link, held, folders)
            await _tell_periodic_results(link, held, folders)


async def tell_end(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    """All that was not told, and the end."""
    assert held.ended is not None, "it has ended"
    async with held.telling:
        await _tell_output(link, held, folders)
        if (words := await _tell_results(link, held, folders)) and held.ended.cause == "exit":
            held.ended = msgspec.structs.replace(held.ended, cause="unkept", message=words)
        link.post(held.ended)


async def _tell_output(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    for stream in STREAMS:
        path = folders.output(held.start.job, stream)
        try:
            if path.stat().st_size <= held.sent[stream]:
                continue
            with path.open("rb") as file:
                file.seek(held.sent[stream])
                while data := file.read(CHUNK):
                    await link.send(_output(held, stream, data))
                    held.sent[stream] += len(data)
        except FileNotFoundError:
            continue


def _output(held: HeldRun, stream: StreamName, data: bytes) -> Output:
    start = held.start
    return Output(
        task=start.task,
        instance=start.instance,
        attempt=start.attempt,
        stream=stream,
        offset=held.sent[stream],
        data=data,
    )


async def _tell_periodic_results(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    now = asyncio.get_running_loop().time()
    if held.start.results_period is None or now < held.results_due:
        return
    held.results_due = now + held.start.results_period
    await _tell_results(link, held, folders)


async def _tell_results(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> str:
    """Those that changed since they were sent; why they cannot be collected, or nothing."""
    if held.pid is None or not (held.start.results or held.start.python):
        return ""
    folder = folders.job(held.start.job)
    try:
        names = await asyncio.to_thread(matching, folder, held.start.results) if held.start.results else []
    except OSError as problem:
        return f"its results cannot be collected: {(problem.strerror or str(problem)).lower()}"
    for name in (*names, RETURNED) if held.start.python else names:
        await _tell_result(link, held, folder, name)
    return ""


async def _tell_result(link: ServiceLink, held: HeldRun, folder: Path, name: str) -> None:
    try:
        file = os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK), "rb")  # a pipe would keep us waiting
    except OSError:  # gone meanwhile, or not to be read: it is no result
        return
    with file:
        facts = os.fstat(file.fileno())
        state = (facts.st_mtime_ns, facts.st_size)
        if held.results.get(name) == state:
            return
        offset, last = 0, False
        while not last:
            data = file.read(min(CHUNK, facts.st_size - offset))
            last = offset + len(data) >= facts.st_size or not data
            start = held.start
            await link.send(
                ResultFile(
                    task=start.task,
                    instance=start.instance,
                    attempt=start.attempt,
                    name=readable_name(name),
                    offset=offset,
                    data=data,
                    last=last,
                    executable=bool(facts.st_mode & 0o100),
                )
            )
            offset += len(data)
        held.results[name] = state
