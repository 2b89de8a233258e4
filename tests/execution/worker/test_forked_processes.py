"""Processes are forked from a warm one: they are what they would be if started in full, and end with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders.processes import is_alive, parent_of, words_of
from cenote.execution.worker.process.forking import ForkedOutput, ForkedProcess, NoForkError, WarmProcess
from cenote.execution.worker.process.warm_processes import WarmProcesses

PATIENCE = 60.0


class Warm:
    """A warm process, and a folder with modules that it runs."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.folder = folder
        self.variables = {"PYTHONPATH": str(folder)}
        self.templates = WarmProcesses()
        self.modules = modules

    @property
    def template(self) -> WarmProcess:
        found = self.templates.of(self.modules, self.variables, self.folder / "template.err")
        assert found is not None
        return found

    def module(self, name: str, code: str) -> None:
        (self.folder / f"{name}.py").write_text(code)

    def fork(self, *words: str, **more: str) -> ForkedProcess:
        output = ForkedOutput(self.folder / "out", self.folder / "err")
        return self.template.fork(words, variables={**self.variables, **more}, output=output, shown=tuple(more))

    def said(self) -> str:
        return (self.folder / "out").read_text()


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    found = Warm(tmp_path, "json")
    yield found
    found.templates.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_module_finds_itself_as_python_would_start_it(warm: Warm) -> None:
    warm.module("told", "import os, sys\nprint(__name__, sys.argv[1:], os.environ['COLOUR'], 'json' in sys.modules)")
    assert warm.fork("told", "a", "b", COLOUR="blue").wait(PATIENCE) == 0
    assert warm.said() == "__main__ ['a', 'b'] blue True\n"


def test_all_come_from_one_process_and_share_nothing(warm: Warm) -> None:
    warm.module("mark", "import json, os, time\nprint(hasattr(json, 'mark'), os.getppid())\njson.mark = True")
    first, second = warm.fork("mark"), warm.fork("mark")
    assert (first.wait(PATIENCE), second.wait(PATIENCE)) == (0, 0)
    assert warm.said().splitlines() == [f"False {warm.template.pid}"] * 2
    assert warm.template.forks == 2


def test_how_each_ended_is_told(warm: Warm) -> None:
    warm.module("ends", "import os, sys\nos.kill(os.getpid(), 9) if sys.argv[1] == 'kill' else sys.exit(sys.argv[1])")
    warm.module("code", "import sys\nsys.exit(7)")
    killed, words, code, raised = (
        warm.fork("ends", "kill"),
        warm.fork("ends", "words"),
        warm.fork("code"),
        warm.fork("there_is_no_such_module"),
    )
    assert killed.wait(PATIENCE) == -signal.SIGKILL
    assert (words.wait(PATIENCE), code.wait(PATIENCE), raised.wait(PATIENCE)) == (1, 7, 1)
    assert "No module named there_is_no_such_module" in (warm.folder / "err").read_text()


def test_one_that_runs_has_no_code_and_can_be_ended(warm: Warm) -> None:
    warm.module("sleeps", "import time\ntime.sleep(1000)")
    process = warm.fork("sleeps")
    assert process.poll() is None
    with pytest.raises(TimeoutError):
        process.wait(0.01)
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM
    process.kill()  # it is gone: not an error
    assert process.poll() == -signal.SIGTERM


def test_it_is_listed_with_its_own_words_and_marks(warm: Warm) -> None:
    warm.module("sleeps", "import time\ntime.sleep(1000)")
    process = warm.fork("sleeps", "--name", "gpu-7", CENOTE_WORKER="gpu-7")
    wait_for(lambda: "gpu-7" in words_of(process.pid))
    assert words_of(process.pid)[-4:] == ["-m", "sleeps", "--name", "gpu-7"]
    variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert b"CENOTE_WORKER=gpu-7" in variables
    assert words_of(warm.template.pid)[-2:] == ["cenote.execution.worker.process.template", "json"]


def test_descriptors_come_along(warm: Warm) -> None:
    warm.module("writes", "import os, sys\nos.write(int(sys.argv[1]), b'hello')")
    reading, writing = os.pipe()
    output = ForkedOutput(warm.folder / "out", warm.folder / "err")
    process = warm.template.fork(["writes"], variables=warm.variables, output=output, descriptors=[writing])
    os.close(writing)
    assert process.wait(PATIENCE) == 0
    assert os.read(reading, 100) == b"hello"
    os.close(reading)


def test_whatever_was_forked_ends_with_the_warm_process(warm: Warm) -> None:
    warm.module("sleeps", "import time\ntime.sleep(1000)")
    process, first = warm.fork("sleeps"), warm.template.pid
    os.kill(first, signal.SIGKILL)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    assert not is_alive(process.pid)
    assert parent_of(warm.fork("sleeps").pid) == warm.template.pid != first, "there is a new one"


def test_whatever_was_forked_ends_when_nobody_can_ask_any_more(warm: Warm) -> None:
    warm.module("sleeps", "import time\ntime.sleep(1000)")
    process, template = warm.fork("sleeps"), warm.template
    template.line.shutdown(2)  # as if this process had been killed
    wait_for(lambda: not is_alive(process.pid) and not is_alive(template.pid))


def test_no_process_is_forked_from_one_with_threads(tmp_path: Path) -> None:
    warm = Warm(tmp_path, "threads")
    warm.module(
        "threads", "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    )
    with pytest.raises(NoForkError):
        warm.fork("threads")
    assert warm.templates.of(warm.modules, warm.variables, tmp_path / "err") is None, "each is started in full"


def test_a_variable_that_is_no_text_is_for_a_process_that_is_started_in_full(warm: Warm) -> None:
    with pytest.raises(NoForkError, match="UTF-8"):
        warm.fork("json", ODD=os.fsdecode(b"\xe4"))
    warm.module("told", "print('well')")
    assert warm.fork("told").wait(PATIENCE) == 0, "others go on"


def test_variables_that_count_as_python_begins_have_a_process_of_their_own(tmp_path: Path) -> None:
    templates = WarmProcesses()
    one, other = (templates.of(["json"], {"OMP_NUM_THREADS": n}, tmp_path / "err") for n in ("1", "2"))
    assert one is not other
    assert templates.of(["json"], {"OMP_NUM_THREADS": "1"}, tmp_path / "err") is one
    templates.close()
