"""Agents and their service lose each other, and find each other again."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path

import pytest

from builders.agents import LIMIT, AgentStory, a_start, bounded, gone, is_alive
from cenote.common.certificates.authority import identities_of
from cenote.service.agent.options import ServiceLink
from cenote.service.protocol import (
    LARGEST_FRAME,
    AttemptEnded,
    Hello,
    Ping,
    Pong,
    ResultFile,
    Started,
    TurnedAway,
    frame,
    read_for_agent,
)
from cenote.service.server.hub import AgentJoined


def a_hello(name: str = "w1") -> Hello:
    return Hello(name=name, pool="p", slots=1, session="another", host="here", pid=1)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side closes."""
    try:
        return await asyncio.wait_for(reader.read(), LIMIT)
    except (ConnectionError, ssl.SSLError):
        return b""


def test_hello_says_who_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent("node-7", slots=3)
            hello = (await it.joined("node-7")).hello
            assert (hello.name, hello.pool, hello.slots, hello.pid) == ("node-7", "p", 3, process.pid)
            assert set(hello.versions) == {"python", "cenote"}
            assert hello.held == ()

    bounded(story())


def test_instances_survive_the_service_and_are_told_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(slots=3)
            go = tmp_path / "go"
            os.mkfifo(go)
            before = it.start("echo over")
            await it.ended(before)
            running = it.start("echo one; trap 'echo two; exit 5' TERM; while :; do sleep 0.05; done")
            ending = it.start(f"cat {go}; exit 6")
            await it.printed(running, "one")
            pid = (await it.started(ending)).pid
            await it.close()
            await asyncio.to_thread(go.write_text, "said alone\n")
            await gone(pid)
            await it.open()
            again = (await it.joined(times=2)).hello
            states = {held.key: held.state for held in again.held}
            assert states[running] == "running"
            assert set(states) == {running, ending}
            assert (await it.ended(ending)).exit_code == 6
            assert it.text(ending) == "said alone\n"
            it.stop(running)
            assert (await it.ended(running)).exit_code == 5
            assert it.text(running) == "one\ntwo\n"
            assert [len(it.ends_of(key)) for key in (before, running, ending)] == [1, 1, 1]

    bounded(story())


def test_an_agent_whose_log_has_no_room_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            (it.folder / "w1.err").symlink_to("/dev/full")
            await it.agent()
            await it.close()
            await it.open()
            await it.joined(times=2)
            assert (await it.run("exit 3")).exit_code == 3

    bounded(story())


def test_an_end_is_told_until_it_is_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path, acknowledges=False) as it:
            await it.agent()
            key = it.start("echo kept; echo result > result", results=("result",))
            await it.ended(key)
            await it.close()
            await it.open()
            await it.until(lambda: len(it.ends_of(key)) == 2)
            assert it.text(key) == "kept\n"
            it.acknowledge("w1", key)
            it.acknowledge("w1", (await it.run("true")).key)
            await it.close()
            await it.open()
            assert key not in [held.key for held in (await it.joined(times=3)).hello.held]

    bounded(story())


def test_a_known_attempt_is_never_run_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            counted = tmp_path / "count"
            start = a_start(f"echo ran >> {counted}; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
            it.send(start)
            await it.started(start.key)
            it.send(start)
            await it.until(lambda: len(it.said(Started)) == 2)
            assert len({one.pid for one in it.said(Started)}) == 1
            (tmp_path / "go").touch()
            await it.ended(start.key)
            it.send(start)
            await it.until(lambda: len(it.ends_of(start.key)) == 2)
            assert counted.read_text() == "ran\n"

    bounded(story())


def test_strangers_without_a_certificate_get_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port)
            writer.write(frame(a_hello()))
            heard = await rest_of(reader)
            assert b"Welcome" not in heard
            writer.close()
            other = identities_of("another service").workers.connecting()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port, ssl=other)
                writer.write(frame(a_hello()))
                heard = await rest_of(reader)
                writer.close()
            except (ConnectionError, ssl.SSLError):
                heard = b""
            assert heard == b""
            assert it.events == []
            await it.agent()

    bounded(story())


def test_strangers_who_say_nothing_use_up_no_files_and_keep_no_agent_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cenote.service.server.hub._FIRST_WORDS", 10 * LIMIT)
    monkeypatch.setattr("cenote.service.server.hub._MOST_NEWCOMERS", 5)

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent("first")
            await it.joined("first")
            lines = [await asyncio.open_connection("127.0.0.1", it.hub.port) for _ in range(20)]
            for reader, _ in lines[:15]:
                assert await rest_of(reader) == b""
            await it.agent("second")
            await it.joined("second")
            assert set(it.hub.workers) == {"first", "second"}
            for _, writer in lines:
                writer.close()

    bounded(story())


def test_what_is_no_message_ends_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            context = it.identities.workers.connecting()
            key = a_start().key
            outside = ResultFile(
                task=key.task, instance=0, attempt=1, name="../../.bashrc", offset=0, data=b"x", last=True
            )
            too_long = (LARGEST_FRAME + 1).to_bytes(4, "big")
            for number, said in enumerate((too_long, b"\0\0\0\3abc", frame(outside), frame(a_hello()))):
                reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port, ssl=context)
                writer.write(frame(a_hello(f"w{number}")))
                await it.joined(f"w{number}")
                writer.write(said)
                await rest_of(reader)
                writer.close()
                await it.left(f"w{number}")
            reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port, ssl=context)
            writer.write(frame(Pong(number=1)))
            assert await rest_of(reader) == b""
            writer.close()
            assert it.said(ResultFile) == []

    bounded(story())


def test_an_agent_that_does_not_read_is_let_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            context = it.identities.workers.connecting()
            reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port, ssl=context, limit=1000)
            writer.write(frame(a_hello()))
            await it.joined()
            start = a_start("x" * (LARGEST_FRAME // 2))
            sent = 0
            while it.hub.send("w1", start):
                sent += 1
                assert sent < 100
            assert (await it.left()).reason == "it does not read its messages"
            writer.close()
            del reader

    bounded(story())


def test_two_agents_of_the_same_name_the_first_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            first = await it.agent()
            context = it.identities.workers.connecting()
            reader, writer = await asyncio.open_connection("127.0.0.1", it.hub.port, ssl=context)
            writer.write(frame(a_hello()))
            answer = await read_for_agent(reader)
            assert isinstance(answer, TurnedAway)
            assert f"process {first.pid} on" in answer.reason
            writer.close()
            second = it.launch(options=("--orphan", "0.2"))
            assert await asyncio.to_thread(second.wait, LIMIT) == 1
            assert "a worker named w1 is connected already" in (tmp_path / "w1.err").read_text()
            assert [event for event in it.events if isinstance(event, AgentJoined)] == [it.events[0]]
            assert (await it.run("true")).exit_code == 0

    bounded(story())


def test_an_agent_alone_for_too_long_ends_itself_and_its_children(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent(options=("--orphan", "0.5"))
            key = it.start("exec sleep 1000")
            pid = (await it.started(key)).pid
            await it.close()
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
            assert not is_alive(pid)
            assert list(it.scratch.iterdir()) == []
            assert "no service for 0.5 s" in (tmp_path / "w1.err").read_text()
            await it.open()
            assert it.said(AttemptEnded) == []

    bounded(story())


@pytest.mark.parametrize("steps", range(6))
def test_an_agent_that_ends_is_not_kept_by_a_message_that_comes_just_then(steps: int) -> None:
    async def story() -> None:
        ours, its = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        link = ServiceLink(reader, writer)

        async def listen() -> None:
            while True:
                await link.receive()

        listening = asyncio.create_task(listen())
        for _ in range(5):
            await asyncio.sleep(0)
        reader.feed_data(frame(Ping(number=1)))
        for _ in range(steps):
            await asyncio.sleep(0)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(listening), LIMIT)
        its.close()
        await link.close()

    bounded(story())
