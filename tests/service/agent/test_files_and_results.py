"""What is sent to instances, and what comes back from them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from builders.agents import AgentStory, bounded
from cenote.service.agent.folders import matching
from cenote.service.protocol import DrainAgent, PlacedFile, PoolFiles
from cenote.service.server.hub import Hub


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
            key = it.start(command, results=("steps", "fixed"), results_period=1)
            await it.until(lambda: it.results.get((key, "steps")) == b"1\n" and (key, "fixed") in it.results)
            go.write_text("on")
            await it.until(lambda: it.results.get((key, "steps")) == b"1\n2\n")
            it.stop(key)
            await it.ended(key)
            assert it.result_count == 3

    bounded(story())


def test_patterns_are_read_as_shells_read_them(tmp_path: Path) -> None:
    for name in ("a.txt", "b.dat", ".hidden.txt", "deep/c.txt", "deep/er/d.txt", ".secret/e.txt", "other/.f"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def found(*patterns: str) -> list[str]:
        return matching(tmp_path, patterns)

    assert found("*.txt") == ["a.txt"]
    assert found("**/*.txt") == ["a.txt", "deep/c.txt", "deep/er/d.txt"]
    assert found("**") == ["a.txt", "b.dat", "deep/c.txt", "deep/er/d.txt", "other/.f"]
    assert found("deep/**/d.txt", "deep/**/**/d.txt") == ["deep/er/d.txt"]
    assert found("d*/[a-c].txt", "?.dat") == ["b.dat", "deep/c.txt"]
    assert found("deep", "other") == ["deep/c.txt", "deep/er/d.txt", "other/.f"]
    assert found(".hidden.txt", ".secret/*", ".*.txt") == [".hidden.txt", ".secret/e.txt"]
    assert found("missing", "a.txt/x", "../*", "/etc/passwd", "n" * 300, "a.txt/**/x") == []


def test_links_that_lead_in_circles_or_out_are_no_results_and_multiply_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "x").touch()
    for name, target in (
        ("loop", "loop"),
        ("one", "two"),
        ("two", "one"),
        ("here", "."),
        ("again", "."),
        ("out", ".."),
    ):
        (folder / name).symlink_to(target)
    (folder / "linked").symlink_to("deep")
    assert matching(folder, ["**/x"]) == ["deep/x"]
    assert matching(folder, ["linked/x", "linked"]) == ["linked/x"]
    assert matching(folder, ["loop", "one", "loop/x", "out"]) == []


def test_folders_deeper_than_any_name_cost_their_instance_and_nothing_else(tmp_path: Path) -> None:
    deep = "import os\nfor _ in range(1500):\n os.mkdir('dddd'); os.chdir('dddd')\nopen('x', 'w').close()"

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            command = f'{sys.executable} -c "{deep}"'
            unasked = await it.ended(it.start(command, results=("*.txt",)))
            asked = await it.ended(it.start(command, results=("dddd",)))
            healthy = await it.ended(it.start("echo on > x; ln -s x link; ln -s loop loop", results=("*",)))
            assert [one.cause for one in (unasked, asked, healthy)] == ["exit", "unkept", "exit"]
            assert asked.message == "its results cannot be collected: file name too long"
            assert {name for key, name in it.results} == {"x", "link"}
            it.send(DrainAgent())
            await it.left()
            await asyncio.to_thread(it.agents[0].wait)
            assert list(it.scratch.iterdir()) == []

    bounded(story())
