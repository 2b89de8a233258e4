"""What is sent to instances, and what comes back from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.agents import AgentStory, bounded
from cenote.service.hub import Hub
from cenote.service.protocol import PlacedFile, PoolFiles


def a_file(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def contents_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Digests of the files that hubs send from now on."""
    sent: list[str] = []
    send = Hub._send_file

    async def noted(self: Hub, peer: object, digest: str) -> None:
        sent.append(digest)
        await send(self, peer, digest)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(Hub, "_send_file", noted)
    return sent


def test_resources_are_in_the_folder_of_each_instance_and_sent_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = contents_sent(monkeypatch)

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(slots=2)
            large = os.urandom(3_000_000)
            files = (
                it.hub.offer(a_file(tmp_path, "large.bin", large), "data/large.bin"),
                it.hub.offer(a_file(tmp_path, "again.bin", large), "again.bin"),
                it.hub.offer(a_file(tmp_path, "empty", b""), "empty"),
            )
            command = (
                "cmp data/large.bin again.bin && test -f empty && sha256sum < again.bin && echo changed > again.bin"
            )
            keys = [it.start(command, files=files) for _ in range(4)]
            ends = [await it.ended(key) for key in keys]
            assert [one.exit_code for one in ends] == [0] * 4
            assert {it.text(key).split()[0] for key in keys} == {files[0].digest}
            assert sorted(sent) == sorted({file.digest for file in files})

    bounded(story())


def test_programs_that_are_sent_can_be_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            program = a_file(tmp_path, "program", b"#!/bin/sh\necho I run\n")
            program.chmod(0o755)
            key = it.start("./program", files=(it.hub.offer(program),))
            await it.ended(key)
            assert it.text(key) == "I run\n"

    bounded(story())


def test_files_of_the_pool_lie_one_folder_above(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            file = it.hub.offer(a_file(tmp_path, "shared.txt", b"for all\n"))
            it.send(PoolFiles(files=(file,)))
            key = it.start("cat ../shared.txt")
            await it.ended(key)
            assert it.text(key) == "for all\n"

    bounded(story())


def test_a_file_that_the_service_lost_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            unknown = PlacedFile("input.txt", "0" * 64, 1)
            ended = await it.run("true", files=(unknown,))
            assert ended.cause == "refused"
            expected = "input.txt could not be brought to the worker: the service does not have it any more"
            assert ended.message == expected

    bounded(story())


def test_a_file_that_changed_is_not_used(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            file = a_file(tmp_path, "input.txt", b"before")
            offered = it.hub.offer(file)
            file.write_bytes(b"after")
            ended = await it.run("true", files=(offered,))
            assert ended.cause == "refused"
            assert "it changed since the task was submitted" in ended.message

    bounded(story())


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside"])
def test_files_stay_within_their_folder(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            file = it.hub.offer(a_file(tmp_path, "input.txt", b"content"), name)
            ended = await it.run("true", files=(file,))
            assert ended.cause == "refused"
            assert "leads out of the folder" in ended.message

    bounded(story())


def test_results_are_collected_by_patterns(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            large = "head -c 1000000 /dev/zero > large.root"
            made = "mkdir -p plots/deep; echo 1 > plots/a.txt; echo 2 > plots/deep/b.txt; : > other.log; : > empty.root"
            links = "ln -s /etc/hostname out.root; ln -s plots/a.txt in.root; mkfifo pipe.root"
            patterns = ("*.root", "plots", "**/b.txt", "/etc/hostname", "../*", "nothing*")
            key = it.start(f"{large}; {made}; {links}", results=patterns)
            assert (await it.ended(key)).exit_code == 0
            found = {name: len(data) for (_, name), data in it.results.items()}
            expected = {"large.root": 1_000_000, "empty.root": 0, "in.root": 2, "plots/a.txt": 2, "plots/deep/b.txt": 2}
            assert found == expected

    bounded(story())


def test_results_of_a_failed_instance_come_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("echo partial > result.txt; exit 9", results=("*.txt",))
            assert (await it.ended(key)).exit_code == 9
            assert it.result(key, "result.txt") == b"partial\n"

    bounded(story())


def test_results_come_periodically_when_they_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            go = tmp_path / "go"
            os.mkfifo(go)
            command = f"echo 1 > steps; echo same > fixed; cat {go} > /dev/null; echo 2 >> steps; sleep 1000"
            key = it.start(command, results=("steps", "fixed"), results_period=0.1)
            await it.until(lambda: it.results.get((key, "steps")) == b"1\n" and (key, "fixed") in it.results)
            go.write_text("on")
            await it.until(lambda: it.results.get((key, "steps")) == b"1\n2\n")
            it.stop(key)
            await it.ended(key)
            assert it.result_count == 3

    bounded(story())
