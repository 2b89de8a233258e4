"""SIGINT, SIGTERM and SIGHUP, once and many times, whatever the driver is doing: it ends in good order, and alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import cenote
from builders.processes import descendants, is_alive
from cenote.engine.messages import TaskStarted

from ..conftest import PATIENCE, Desk, wait_for
from .test_runs_can_be_cancelled import happened

OPS = """
    import time
    from pathlib import Path
    from typing import ClassVar
    from cenote import operation
    from cenote.analysis.renderers.interface import Renderer
    from cenote.analysis.sources.root_tree.source import RootTreeSource

    HERE = Path(__file__).parent

    def hold(place):
        "Say that it is here, and stay for as long as somebody wants it."
        (HERE / f"in-{place}").touch()
        while (HERE / f"hold-{place}").exists():
            time.sleep(0.02)

    hold("import")

    @operation("custom.held", reads=["MET_pt"], adds=["held"])
    def held(events):
        hold("task")
        return {"held": events["MET_pt"] * 2}

    class HeldSource(RootTreeSource):
        "Looks at files for as long as somebody wants."
        cenote_plugin: ClassVar = ("source", "held_tree")

        def describe(self, url):
            hold("planning")
            return super().describe(url)

    class HeldPicture(Renderer):
        "Draws for as long as somebody wants."
        cenote_plugin: ClassVar = ("renderer", "held_picture")
        draws: ClassVar = ("histogram",)

        def draw(self, product, target, context):
            hold("saving")
            import drawing
            return []
"""
DRAWING = """
    "Takes long to import, as libraries that draw do."
    import time
    from pathlib import Path

    HERE = Path(__file__).parent
    (HERE / "in-drawing").touch()
    while (HERE / "hold-drawing").exists():
        time.sleep(0.02)
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: held_tree, chunk_size: 1000}}
    analysis:
      stages:
        - {id: Held, op: custom.held}
        - id: H
          op: hep.hist
          params: {axes: [{name: x, type: regular, source: held, bins: {nbins: 20, low: 0, high: 200}}]}
          render: {op: held_picture}
    execution: {pools: {default: {workers: 2}}}
"""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
NUMBERS = list(CODES)
BACKENDS = {"here": ["--backend", "local"], "local": ["--workers", "2"], "dask": ["--backend", "dask"]}


@pytest.fixture(autouse=True)
def _not_under_nohup() -> Iterator[None]:
    """Who starts the tests with nohup lets every process below ignore that a terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    desk.write("drawing.py", DRAWING)
    return desk.write("flow.yaml", FLOW)


def held(desk: Desk, place: str) -> Callable[[], bool]:
    """The driver or a worker stays at this place until it is let go; true as soon as it is there."""
    (desk.folder / f"hold-{place}").touch()
    return (desk.folder / f"in-{place}").exists


def let_go(desk: Desk) -> None:
    for file in desk.folder.glob("hold-*"):
        file.unlink()


def status_of(folder: Path) -> str:
    found: str = json.loads((folder / "summary.json").read_text())["status"]
    return found


def send_until_it_ends(driver: subprocess.Popen[str], number: int) -> None:
    """Again and again, through everything that it does on its way out."""
    deadline = time.monotonic() + PATIENCE
    while driver.poll() is None:
        assert time.monotonic() < deadline, "it goes on"
        driver.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(0.05)


def resumed_well(flow: Path, out: Path) -> bool:
    return cenote.load(flow).run(out, resume=True).status == "succeeded"


@pytest.mark.parametrize("number", NUMBERS)
def test_while_python_imports_the_program_it_ends_without_a_traceback(desk: Desk, number: int) -> None:
    script = """
        import sys, time
        from pathlib import Path

        class Held:
            def find_spec(self, name, path=None, target=None):
                if name == "click":
                    Path("in-imports").touch()
                    while Path("hold-imports").exists():
                        time.sleep(0.02)

        sys.meta_path.insert(0, Held())
    """
    there = held(desk, "imports")
    desk.write("sitecustomize.py", script)
    environment = {**os.environ, "PYTHONPATH": str(desk.folder)}
    command = [sys.executable, "-m", "cenote", "--help"]
    with subprocess.Popen(
        command, cwd=desk.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        wait_for(there)
        driver.send_signal(number)
        out, err = driver.communicate(timeout=PATIENCE)
    assert (driver.returncode, out, err) == (CODES[signal.Signals(number)], "", "cenote: interrupted\n")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", ["import", "planning"])
def test_before_there_is_a_run_nothing_is_left(desk: Desk, flow: Path, place: str, number: int) -> None:
    there = held(desk, place)
    with desk.started("run", str(flow), "--out", "out") as driver:
        wait_for(there)
        driver.send_signal(number)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == CODES[signal.Signals(number)]
    assert "cenote: interrupted" in said
    assert "Traceback" not in said
    assert not (desk.folder / "out").exists()


@pytest.mark.parametrize("number", NUMBERS)
def test_before_the_first_task_the_run_is_cancelled(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    there = held(desk, "git")  # asked for the commit of the workflow, when the folder of the run is made
    git = desk.write("git", "#!/bin/sh\ntouch in-git; while [ -e hold-git ]; do sleep 0.02; done; exit 1\n")
    git.chmod(git.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{desk.folder}{os.pathsep}{os.environ['PATH']}")
    with desk.started("run", str(flow), "--out", "out") as driver:
        wait_for(there)
        driver.send_signal(number)
        driver.send_signal(number)
        let_go(desk)
        driver.communicate(timeout=PATIENCE)
    assert driver.returncode == CODES[signal.Signals(number)]
    out = desk.folder / "out"
    assert status_of(out) == "cancelled"
    assert not happened(out, TaskStarted, 1)()
    assert resumed_well(flow, out)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_the_middle_of_a_task(desk: Desk, flow: Path, backend: str, number: int) -> None:
    there, out = held(desk, "task"), desk.folder / "out"
    with desk.started("run", str(flow), "--out", "out", *BACKENDS[backend]) as driver:
        wait_for(there)
        workers = descendants(driver.pid)
        driver.send_signal(number)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == CODES[signal.Signals(number)]
    assert "Traceback" not in said
    assert status_of(out) == "cancelled"
    wait_for(lambda: not any(is_alive(worker) for worker in workers))
    let_go(desk)
    assert resumed_well(flow, out)


@pytest.mark.parametrize(  # each number on each backend: above; they differ only in the code that is given back
    ("backend", "number"),
    [*(("here", number) for number in NUMBERS), ("local", signal.SIGTERM), ("dask", signal.SIGINT)],
)
def test_again_and_again_until_it_ends(desk: Desk, flow: Path, backend: str, number: int) -> None:
    there, out = held(desk, "task"), desk.folder / "out"
    with desk.started("run", str(flow), "--out", "out", *BACKENDS[backend]) as driver:
        wait_for(there)
        workers = descendants(driver.pid)
        send_until_it_ends(driver, number)
        assert driver.stdout is not None
        assert "Traceback" not in driver.stdout.read()
    assert driver.returncode == CODES[signal.Signals(number)]
    assert status_of(out) == "cancelled"
    wait_for(lambda: not any(is_alive(worker) for worker in workers))


@pytest.mark.parametrize(("number", "times"), [*((number, 1) for number in NUMBERS), (signal.SIGINT, 3)])
def test_while_products_are_saved(desk: Desk, flow: Path, number: int, times: int) -> None:
    there, out = held(desk, "saving"), desk.folder / "out"
    with desk.started("run", str(flow), "--out", "out") as driver:
        wait_for(there)
        for _ in range(times):
            driver.send_signal(number)
        driver.communicate(timeout=PATIENCE)
    assert driver.returncode == CODES[signal.Signals(number)]
    assert status_of(out) == "cancelled"
    let_go(desk)
    assert resumed_well(flow, out)


@pytest.mark.parametrize(("number", "many"), [*((number, False) for number in NUMBERS), (signal.SIGTERM, True)])
def test_while_a_picture_imports_what_it_needs(desk: Desk, flow: Path, number: int, many: bool) -> None:
    there, out = held(desk, "drawing"), desk.folder / "out"
    with desk.started("run", str(flow), "--out", "out", "--workers", "2") as driver:
        wait_for(there)
        workers = descendants(driver.pid)
        if many:
            send_until_it_ends(driver, number)
        driver.send_signal(number)
        let_go(desk)
        driver.communicate(timeout=PATIENCE)
    assert driver.returncode == CODES[signal.Signals(number)]
    assert status_of(out) == "cancelled"
    wait_for(lambda: not any(is_alive(worker) for worker in workers))
    assert resumed_well(flow, out)


def test_a_child_that_a_task_forks_ends_as_any_process_does(desk: Desk) -> None:
    desk.muons("a.root", events=300)
    ops = """
        import multiprocessing, time
        from cenote import operation

        @operation("custom.forks", reads=["MET_pt"], adds=["held"])
        def forks(events):
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
            child.start()
            child.terminate()
            child.join()
            assert child.exitcode == -15, child.exitcode
            return {"held": events["MET_pt"] * 2}
    """
    desk.write("ops.py", ops)
    workflow = FLOW.replace("custom.held", "custom.forks").replace("kind: held_tree, ", "")
    desk.write("flow.yaml", workflow.replace("render: {op: held_picture}", "render: []"))
    with desk.started("run", "flow.yaml", "--out", "out") as driver:
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert "interrupted" not in said


IN_PYTHON = """
    import signal, sys, threading
    import cenote

    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    def run():
        print(cenote.load("flow.yaml").run("out").status, heard, flush=True)

    if sys.argv[1] == "thread":
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
"""


def in_python(desk: Desk, where: str) -> subprocess.Popen[str]:
    desk.write("mine.py", IN_PYTHON)
    return subprocess.Popen([sys.executable, "mine.py", where], cwd=desk.folder, stdout=subprocess.PIPE, text=True)


def test_in_python_ctrl_c_ends_the_run_and_the_program_goes_on(desk: Desk, flow: Path) -> None:
    assert flow.exists()
    there = held(desk, "task")
    with in_python(desk, "main") as program:
        wait_for(there)
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate(timeout=PATIENCE)
    assert (program.returncode, said) == (0, "cancelled []\n")


def test_in_python_sigterm_ends_the_run_and_then_goes_to_the_program(desk: Desk, flow: Path) -> None:
    assert flow.exists()
    there = held(desk, "task")
    with in_python(desk, "main") as program:
        wait_for(there)
        program.send_signal(signal.SIGTERM)
        said, _ = program.communicate(timeout=PATIENCE)
    assert (program.returncode, said) == (0, f"cancelled [{int(signal.SIGTERM)}]\n")


def test_in_a_thread_signals_are_the_programs_own(desk: Desk, flow: Path) -> None:
    assert flow.exists()
    there = held(desk, "task")
    with in_python(desk, "thread") as program:
        wait_for(there)
        program.send_signal(signal.SIGINT)
        let_go(desk)
        said, _ = program.communicate(timeout=PATIENCE)
    assert (program.returncode, said) == (0, f"succeeded [{int(signal.SIGINT)}]\n")


def test_ctrl_c_in_a_terminal_does_not_end_the_workers_before_the_driver_does(desk: Desk, flow: Path) -> None:
    """A terminal sends it to the whole process group: workers that only start would look as if they could not."""
    there, out = held(desk, "task"), desk.folder / "out"
    with desk.started("run", str(flow), "--out", "out", "--workers", "2") as driver:
        wait_for(there)
        groups = {os.getpgid(worker) for worker in descendants(driver.pid)}
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=PATIENCE)
    assert groups
    assert os.getpgid(0) not in groups
    assert status_of(out) == "cancelled"
