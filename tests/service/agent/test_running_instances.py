"""What an instance finds, and how its end is told."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from builders.agents import AgentStory, a_start, bounded, is_alive
from cenote.service.protocol import Started


def test_an_instance_knows_who_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("env", instance=3, instances=7, constants={"MASS": "125 GeV"}, job="abc-1")
            ended = await it.ended(key)
            lines = it.text(key).splitlines()
            assert (ended.cause, ended.exit_code, ended.message) == ("exit", 0, "")
            assert {"INSTANCE_ID=3", "INSTANCE_COUNT=7", "JOB_UUID=abc-1", "MASS=125 GeV"} <= set(lines)
            assert "FROM_THE_NODE=is seen" in lines
            assert not [line for line in lines if "CENOTE" in line]

    bounded(story())


def test_each_instance_has_a_folder_of_its_own_that_is_gone_afterwards(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("pwd; ls -A; mkdir -p kept/deep; chmod 500 kept; echo more > file", job="job-of-mine")
            await it.ended(key)
            assert it.text(key) == f"{it.root()}/job/job-of-mine\n"
            await it.run("true")  # what was acknowledged before it is removed meanwhile
            it.agents[0].terminate()
            await it.left()
            it.agents[0].wait()
            assert list(it.scratch.iterdir()) == []

    bounded(story())


def test_output_streams_are_told_apart_and_may_be_any_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("printf '\\000\\377\\n'; printf 'to err\\376' >&2")
            await it.ended(key)
            assert bytes(it.outputs[key, "stdout"]) == b"\x00\xff\n"
            assert bytes(it.outputs[key, "stderr"]) == b"to err\xfe"

    bounded(story())


def test_output_comes_while_an_instance_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("echo here; exec sleep 1000")
            await it.printed(key, "here\n")
            assert it.ends_of(key) == []

    bounded(story())


def test_ten_megabytes_come_completely_and_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("seq 1 1400000")
            await it.ended(key)
            expected = "".join(f"{number}\n" for number in range(1, 1_400_001))
            assert len(expected) > 10_000_000
            assert it.text(key) == expected

    bounded(story())


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_codes_are_told(tmp_path: Path, code: int) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run(f"echo first >&2; echo why it failed >&2; exit {code}")
            assert (ended.cause, ended.exit_code, ended.signal) == ("exit", code, None)
            assert ended.message == (f"exit code {code}: why it failed" if code else "")

    bounded(story())


def test_signals_are_told_apart_from_exit_codes(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run("kill -SEGV $$")
            assert (ended.cause, ended.exit_code, ended.signal) == ("signal", None, signal.SIGSEGV)
            assert ended.message.startswith("ended by SIGSEGV")

    bounded(story())


def test_what_an_instance_used_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
            assert ended.cpu_seconds > 0
            assert ended.seconds > 0
            assert ended.peak_memory > 1_000_000

    bounded(story())


def test_a_command_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run("no-such-command-here --x")
            assert (ended.cause, ended.exit_code) == ("exit", 127)
            assert "command not found" in ended.message
            assert "no-such-command-here" in ended.message

    bounded(story())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"constants": {"NOT A NAME": "1"}}, "cannot name an environment variable"),
        ({"constants": {"JOB_UUID": "1"}}, "reserved"),
        ({"constants": {"CENOTE_X": "1"}}, "reserved"),
        ({"constants": {"A": "\0"}}, "NUL"),
        ({"job": "../../elsewhere"}, "cannot name a working folder"),
    ],
)
def test_what_cannot_be_begun_is_refused_in_words(tmp_path: Path, more: dict[str, object], words: str) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run(**{"command": "true", **more})  # type: ignore[arg-type]  # any value of a Start
            assert (ended.cause, ended.exit_code) == ("refused", None)
            assert words in ended.message
            assert it.said(Started) == []
            assert (await it.run("true")).exit_code == 0

    bounded(story())


def test_an_instance_past_its_time_is_ended(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            ended = await it.run("exec sleep 1000", timeout=1)
            assert (ended.cause, ended.signal) == ("timeout", signal.SIGTERM)
            assert ended.message == "it ran longer than 1 s"

    bounded(story())


def test_a_stopped_instance_may_clean_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("trap 'echo cleaned; exit 4' TERM; echo ready; while :; do sleep 0.05; done")
            await it.printed(key, "ready")
            it.stop(key, "not needed any more")
            ended = await it.ended(key)
            assert (ended.cause, ended.exit_code, ended.message) == ("stopped", 4, "not needed any more")
            assert it.text(key) == "ready\ncleaned\n"

    bounded(story())


def test_an_instance_with_a_grace_is_asked_alone_and_knows_how_long_it_has(tmp_path: Path) -> None:
    ends = 'trap "wait; exit 4" TERM; (sleep 0.3; echo its child was left alone) & echo "$CENOTE_JOB_GRACE"; '

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start(ends + "while :; do sleep 0.05; done", grace=60)
            await it.printed(key, "60")
            it.stop(key)
            assert (await it.ended(key)).exit_code == 4
            assert it.text(key) == "60\nits child was left alone\n"

    bounded(story())


def test_an_instance_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start("trap '' TERM; echo ready; while :; do sleep 1000; done")
            await it.printed(key, "ready")
            it.stop(key)
            assert (await it.ended(key)).signal == signal.SIGKILL

    bounded(story())


def test_what_is_stopped_before_it_comes_is_never_begun(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            start = a_start("touch ran")
            it.stop(start.key, "changed my mind")
            assert (await it.ended(start.key)).cause == "stopped"
            it.send(start)
            await it.until(lambda: len(it.ends_of(start.key)) > 1)
            assert it.said(Started) == []

    bounded(story())


@pytest.mark.parametrize(
    "detach",
    [
        "sleep 1000 & echo $! > pids",
        "setsid sleep 1000 & echo $! > pids",
        "setsid sh -c 'sleep 1000 & echo $! $$ > pids; exec sleep 1000' &",
    ],
)
def test_a_grandchild_that_outlives_its_parent_is_ended(tmp_path: Path, detach: str) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(slots=2)
            other = it.start("setsid sleep 1000 & echo $!; wait")
            await it.printed(other, "\n")
            key = it.start(f"{detach}\nuntil [ -s pids ]; do sleep 0.01; done; cat pids")
            assert (await it.ended(key)).exit_code == 0
            pids = [int(word) for word in it.text(key).split()]
            assert pids
            assert [pid for pid in pids if is_alive(pid)] == []
            assert is_alive(int(it.text(other)))
            it.stop(other)
            await it.ended(other)
            assert not is_alive(int(it.text(other)))

    bounded(story())


def test_what_hides_whose_it_was_is_ended_once_nothing_else_runs(tmp_path: Path) -> None:
    hides = (
        "(env -i setsid sh -c 'cd /; echo $$; exec sleep 1000' > pid &); until [ -s pid ]; do sleep 0.01; done; cat pid"
    )

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(slots=2)
            other = it.start("echo begun; exec sleep 1000")
            await it.printed(other, "begun")
            key = it.start(hides)
            await it.ended(key)
            assert is_alive(pid := int(it.text(key)))  # it might be of the other
            it.stop(other)
            await it.ended(other)
            assert not is_alive(pid)

    bounded(story())


def test_sixteen_instances_on_four_slots_run_four_at_a_time(tmp_path: Path) -> None:
    async def story() -> None:
        marks = tmp_path / "marks"
        marks.mkdir()
        async with AgentStory(tmp_path) as it:
            await it.agent(slots=4)
            command = f"touch {marks}/$INSTANCE_ID; ls {marks} | wc -l; rm {marks}/$INSTANCE_ID"
            keys = [it.start(command, task="t", instance=one, instances=16) for one in range(16)]
            ends = [await it.ended(key) for key in keys]
            assert [one.exit_code for one in ends] == [0] * 16
            assert {1, 2, 3, 4} >= {int(it.text(key)) for key in keys}
            assert [one.instance for one in it.said(Started)] == list(range(16))

    bounded(story())


def test_a_folder_that_vanished_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent()
            key = it.start('echo kept; cd /; rm -r "$OLDPWD"', results=("*",))
            ended = await it.ended(key)
            assert (ended.exit_code, ended.message) == (0, "its working folder was removed while it ran")
            assert it.text(key) == "kept\n"

    bounded(story())
