"""However an agent ends, nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from builders.agents import LIMIT, AgentStory, bounded, gone, is_alive
from cenote.common.shell import run_command
from cenote.execution.worker.process.lifetime import STARTED
from cenote.service.protocol import DrainAgent, Hindered, Shutdown


def guard_of(agent: int) -> int:
    """The process that cleans up after an agent."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    (found,) = [int(pid) for pid in children if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


@pytest.mark.parametrize(
    "command",
    [
        "echo $$; exec sleep 1000",
        "cd /; sleep 1000 & echo $!; wait",
        "cd /; setsid sleep 1000 & echo $!; wait",
        "trap '' TERM HUP INT; echo $$; while :; do sleep 1; done",
    ],
)
def test_children_of_a_killed_agent_end_too(tmp_path: Path, command: str) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            key = it.start(command)
            await it.printed(key, "\n")
            child, guard = int(it.text(key)), guard_of(process.pid)
            process.send_signal(signal.SIGKILL)
            await gone(child)
            await gone(guard)
            assert list(it.scratch.iterdir()) == []

    bounded(story())


def test_shutdown_ends_everything_now(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            running, waiting = it.start("exec sleep 1000"), it.start("true")
            pid = (await it.started(running)).pid
            it.send(Shutdown())
            ends = [await it.ended(running), await it.ended(waiting)]
            assert [(one.cause, one.message) for one in ends] == [
                ("evicted", "its worker w1 ended: the service shut it down")
            ] * 2
            assert await asyncio.to_thread(process.wait, LIMIT) == 0
            assert not is_alive(pid)
            assert list(it.scratch.iterdir()) == []

    bounded(story())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_an_agent_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            key = it.start("exec sleep 1000")
            await it.started(key)
            process.send_signal(number)
            assert (await it.leaving()).reason == f"{number.name} ended it"
            assert (await it.ended(key)).cause == "evicted"
            assert await asyncio.to_thread(process.wait, LIMIT) == 0
            assert list(it.scratch.iterdir()) == []

    bounded(story())


def test_a_batch_system_that_ends_all_processes_of_a_job_evicts_its_instances(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent(slots=2)
            direct, shell = it.start("exec sleep 1000"), it.start("sleep 1000; true")
            pids = [(await it.started(key)).pid for key in (direct, shell)]
            for pid in pids:
                os.killpg(pid, signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            assert [(await it.ended(key)).cause for key in (direct, shell)] == ["evicted"] * 2

    bounded(story())


def test_an_instance_that_somebody_else_ends_has_failed(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("exec sleep 1000")
            os.kill((await it.started(key)).pid, signal.SIGTERM)
            ended = await it.ended(key)
            assert (ended.cause, ended.signal) == ("signal", signal.SIGTERM)

    bounded(story())


def test_a_draining_agent_finishes_what_it_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            go = tmp_path / "go"
            os.mkfifo(go)
            running, waiting = it.start(f"cat {go}; exit 7"), it.start("true")
            await it.started(running)
            it.send(DrainAgent())
            assert (await it.ended(waiting)).cause == "evicted"
            late = await it.run("true")
            assert (late.cause, late.message) == ("evicted", "this worker starts nothing more: it drains")
            await asyncio.to_thread(go.write_text, "go")
            assert (await it.ended(running)).exit_code == 7
            assert await asyncio.to_thread(process.wait, LIMIT) == 0
            assert list(it.scratch.iterdir()) == []

    bounded(story())


def test_an_idle_agent_drains_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            it.send(DrainAgent())
            assert await asyncio.to_thread(process.wait, LIMIT) == 0

    bounded(story())


def test_a_full_disk_is_told_in_words(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=40", "tmpfs", str(small)]
    if os.geteuid() != 0 or run_command(mount, seconds=20).returncode:
        pytest.skip("a small file system can be mounted by root only")

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            it.scratch.rmdir()
            it.scratch = small
            await it.agent(slots=2)
            full = await it.run("head -c 1000000 /dev/zero > large")
            assert full.exit_code == 1
            assert full.message.endswith("is full")
            key = it.start("i=0; while touch $i; do i=$((i+1)); done 2>/dev/null; echo full; exec sleep 1000")
            await it.printed(key, "full")
            waiting = it.start("true")
            hindered = await it.until(lambda: next((one for one in it.said(Hindered) if one.reason), None))
            assert "no space left on device" in hindered.reason
            it.stop(key)
            await it.ended(key)
            assert (await it.ended(waiting)).exit_code == 0, "it began when there was room"
            assert it.said(Hindered)[-1].reason == ""

    try:
        bounded(story())
    finally:
        assert run_command(["umount", str(small)], seconds=20).returncode == 0


@pytest.mark.parametrize("removed", ["output", "job", "files/*"])
def test_an_agent_whose_files_were_removed_leaves_its_work_to_others(tmp_path: Path, removed: str) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent()
            (tmp_path / "data").write_text("1")
            needed = (it.hub.offer(tmp_path / "data"),)
            assert (await it.run("cat data", files=needed)).exit_code == 0
            await it.run(f"rm -rf {it.root()}/{removed}")
            handed_back = await it.run("cat data", files=needed)
            assert (handed_back.cause, handed_back.exit_code) == ("evicted", None)
            assert (await it.leaving()).reason == "files of its own were removed"
            assert await asyncio.to_thread(process.wait, LIMIT) == 0

    bounded(story())


def test_an_agent_without_a_folder_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            it.scratch.rmdir()
            it.scratch.write_text("a file in its place")
            process = it.launch()
            assert await asyncio.to_thread(process.wait, LIMIT) == 1
            assert "no folder for instances can be made in" in (tmp_path / "w1.err").read_text()

    bounded(story())


def test_an_agent_starts_without_what_is_slow_to_import() -> None:
    code = "import sys, cenote.service.agent.main; print(*sys.modules)"
    loaded = set(run_command([sys.executable, "-c", code], seconds=LIMIT).stdout.split())
    assert "cenote.service.agent.agent" in loaded
    assert loaded & {"pydantic", "awkward", "numpy", "dask", "distributed", "yaml", "click"} == set()


def test_an_agent_leaves_before_its_walltime_is_over_and_hands_back_what_it_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent(options=("--walltime", "6"))
            running, waiting = it.start("echo begun; exec sleep 1000"), it.start("true")
            leaving = await it.leaving()
            assert (leaving.reason, leaving.walltime) == ("its walltime is nearly over", True)
            handed_back = await it.ended(waiting)
            assert (handed_back.cause, handed_back.seconds) == ("evicted", 0.0)
            ended = await it.ended(running)
            assert (ended.cause, ended.message) == ("evicted", "its worker w1 had to go: its walltime is nearly over")
            assert it.text(running) == "begun\n"
            assert await asyncio.to_thread(process.wait, LIMIT) == 0

    bounded(story())


def test_an_agent_begins_only_what_can_end_in_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTED, str(int(time.time()) - 500))

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            process = await it.agent(options=("--walltime", "1000"))
            joined = await it.joined()
            assert joined.hello.leaves_in is not None
            assert 300 < joined.hello.leaves_in <= 400
            assert (await it.run("true", timeout=60)).exit_code == 0
            assert (await it.run("true", timeout=5000)).exit_code == 0  # no worker would have so much time
            refused = await it.run(f"touch {tmp_path}/begun", timeout=800)
            assert refused.cause == "evicted"
            assert "an instance may take 13m 20s" in refused.message
            assert not (tmp_path / "begun").exists()
            assert (await it.leaving()).walltime
            assert await asyncio.to_thread(process.wait, LIMIT) == 0

    bounded(story())
