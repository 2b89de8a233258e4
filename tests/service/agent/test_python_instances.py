"""Python instances come from a warm process, and share nothing."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

from builders.agents import AgentStory, bounded, gone
from cenote.service.client.functions.call_files import PYTHON, SentFunction, read_outcomes, write_calls
from cenote.service.client.python_call import RETURNED, PythonCall
from cenote.service.protocol import AttemptKey

WARM = ("--warm", "json")


def a_call(it: AgentStory, function: object, *chunks: list[tuple[object, ...]]) -> dict[str, Any]:
    """Calls of a function: those of each instance."""
    SentFunction(python=PYTHON, path=(), function=pickle.dumps(function)).write(it.folder / "function")
    write_calls(it.folder / "calls", [pickle.dumps([(given, {}) for given in chunk]) for chunk in chunks])
    files = tuple(it.hub.offer(it.folder / name) for name in ("function", "calls"))
    return {"python": PythonCall(function="function", calls="calls"), "files": files}


def a_module(it: AgentStory, name: str, code: str) -> Any:
    """A file that is sent as `ops.py`."""
    file = it.folder / name
    file.write_text(code)
    return it.hub.offer(file, "ops.py")


def returned(it: AgentStory, key: AttemptKey) -> list[tuple[bool, Any]]:
    outcomes = read_outcomes(it.result(key, RETURNED))
    return [(outcome.succeeded, pickle.loads(outcome.content)) for outcome in outcomes]


def template_of(agent: int) -> int:
    """The warm process of an agent."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    found = [int(pid) for pid in children if b"process.template" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found[0]


def test_a_function_returns_its_value(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            key = it.start(**a_call(it, divmod, [], [(17, 5), (9, 4)]), instance=1)
            assert (await it.ended(key)).exit_code == 0
            assert returned(it, key) == [(True, (3, 2)), (True, (2, 1))]

    bounded(story())


def test_what_a_function_raises_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            key = it.start(**a_call(it, int, [("7",), ("seven",), ("8",)]))
            ended = await it.ended(key)
            assert ended.exit_code == 1
            assert "invalid literal for int()" in ended.message
            first, (succeeded, (problem, text)), last = returned(it, key)
            assert not succeeded
            assert isinstance(problem, ValueError)
            assert text.endswith("'seven'\n")
            assert (first, last) == ((True, 7), (True, 8))
            assert "Traceback" in it.text(key, "stderr")

    bounded(story())


def test_a_module_finds_itself_as_python_would_start_it(tmp_path: Path) -> None:
    code = """
import os, sys
print(__name__, sys.argv[1:], os.environ["INSTANCE_ID"], os.environ["MASS"], os.getcwd() == sys.path[0])
print("CENOTE_AGENT_FOLDER" in os.environ, os.getpid() == os.getsid(0), open("data.txt").read())
sys.exit(3)
"""

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            data = tmp_path / "data.txt"
            data.write_text("sent")
            files = (a_module(it, "one.py", code), it.hub.offer(data))
            call = PythonCall(module="ops", arguments=("a", "--b"))
            key = it.start(python=call, files=files, constants={"MASS": "125"}, instance=4)
            assert (await it.ended(key)).exit_code == 3
            assert it.text(key) == "__main__ ['a', '--b'] 4 125 True\nFalse True sent\n"

    bounded(story())


def test_two_modules_of_the_same_name_do_not_see_each_other(tmp_path: Path) -> None:
    code = """
import builtins, json, os, random
print("{}", hasattr(builtins, "left_behind"), hasattr(json, "left_behind"), "LEFT" in os.environ)
builtins.left_behind = json.left_behind = True
os.environ["LEFT"] = "1"
print(random.random())
"""

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            keys = []
            for name in ("first", "second"):
                file = a_module(it, f"{name}.py", code.replace("{}", name))
                keys.append(it.start(python=PythonCall(module="ops"), files=(file,)))
                await it.ended(keys[-1])
            first, second = (it.text(key).splitlines() for key in keys)
            assert (first[0], second[0]) == ("first False False False", "second False False False")
            assert first[1] != second[1]

    bounded(story())


def test_a_crash_leaves_the_warm_process_healthy(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            agent = await it.agent(options=WARM)
            await it.run(**a_call(it, abs, [(-1,)]))
            before = template_of(agent.pid)
            crash = await it.run(python=PythonCall(module="ops"), files=(a_module(it, "crash.py", code),))
            assert (crash.cause, crash.signal) == ("signal", signal.SIGSEGV)
            key = it.start(**a_call(it, abs, [(-5,)]))
            await it.ended(key)
            assert returned(it, key) == [(True, 5)]
            assert template_of(agent.pid) == before

    bounded(story())


def test_a_warm_process_that_died_is_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            agent = await it.agent(options=WARM)
            await it.run(**a_call(it, abs, [(-1,)]))
            os.kill(template_of(agent.pid), signal.SIGKILL)
            assert (await it.run(**a_call(it, abs, [(-1,)]))).exit_code == 0

    bounded(story())


def test_an_instance_finds_imported_what_it_asks_for_of_ours_and_nothing_of_others(tmp_path: Path) -> None:
    code = "import sys; print('cenote.analysis.expressions.parser' in sys.modules, 'wave' in sys.modules)"

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            for wanted, told in ((("cenote.analysis.expressions.parser", "wave"), "True False"), ((), "False False")):
                call = PythonCall(module="ops", warm=wanted)
                key = it.start(python=call, files=(a_module(it, "asks.py", code),))
                assert (await it.ended(key)).exit_code == 0
                assert it.text(key) == f"{told}\n"

    bounded(story())


def test_writing_to_a_closed_pipe_raises_as_in_any_python(tmp_path: Path) -> None:
    code = """import os
reading, writing = os.pipe()
os.close(reading)
try:
    os.write(writing, b'x')
except BrokenPipeError:
    print('raised')"""

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            key = it.start(python=PythonCall(module="ops"), files=(a_module(it, "pipe.py", code),))
            assert (await it.ended(key)).exit_code == 0
            assert it.text(key) == "raised\n"

    bounded(story())


def test_a_python_instance_is_stopped_like_any_other(tmp_path: Path) -> None:
    code = "import time; print('here', flush=True); time.sleep(1000)"

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            key = it.start(python=PythonCall(module="ops"), files=(a_module(it, "long.py", code),))
            await it.printed(key, "here")
            it.stop(key)
            ended = await it.ended(key)
            assert (ended.cause, ended.signal) == ("stopped", signal.SIGTERM)

    bounded(story())


@pytest.mark.parametrize("detached", ["", "os.chdir('/'); os.fork() and os._exit(0); os.setsid(); "])
def test_python_instances_of_a_killed_agent_end_too(tmp_path: Path, detached: str) -> None:
    code = f"""
import os, time
if os.fork() == 0:
    {detached}
    print(os.getpid(), flush=True)
    time.sleep(1000)
time.sleep(1000)
"""

    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            agent = await it.agent(options=WARM)
            key = it.start(python=PythonCall(module="ops"), files=(a_module(it, "fork.py", code),))
            await it.printed(key, "\n")
            instance, template = (await it.started(key)).pid, template_of(agent.pid)
            agent.send_signal(signal.SIGKILL)
            for pid in (instance, int(it.text(key)), template):
                await gone(pid)
            await asyncio.to_thread(agent.wait)

    bounded(story())


def test_a_module_that_is_missing_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentStory(tmp_path) as it:
            await it.agent(options=WARM)
            ended = await it.run(python=PythonCall(module="no_such_module"))
            assert ended.exit_code == 1
            assert "No module named no_such_module" in ended.message

    bounded(story())
