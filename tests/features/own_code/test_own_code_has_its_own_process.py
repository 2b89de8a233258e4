"""Whatever somebody's own code does to its process, the command lives, ends, and says what became of the stage."""

from __future__ import annotations

import signal
import textwrap

import pytest

import cenote
from builders.processes import is_alive

from ..conftest import Desk

OPS = """
    import ctypes
    import os
    import signal
    import threading
    import sys
    import time
    from dataclasses import replace
    from pathlib import Path
    from typing import ClassVar

    import numpy as np

    from cenote import operation
    from cenote.execution.environments.interface import Environment
    from cenote.execution.launch import words

    HERE = Path(__file__).parent
    LONG = 600

    class Started(Environment):
        "Each process is started in full, as those of packed software are."
        cenote_plugin: ClassVar = ("environment", "started")

        def complete(self, launch):
            return replace(launch, interpreter=words("/usr/bin/env", sys.executable))

        def describe(self):
            return {}

    def segfault():
        os.kill(os.getpid(), signal.SIGSEGV)

    def abort():
        os.abort()

    def group():
        os.killpg(0, signal.SIGKILL)

    def leave_thread():
        threading.Thread(target=time.sleep, args=(LONG,)).start()

    def close_all():
        os.closerange(3, 256)

    def close_all_and_stay():
        close_all()
        time.sleep(LONG)

    def break_numpy():
        np.asarray = np.array = np.concatenate = None

    def hold_lock():
        ctypes.PyDLL(None).sleep(LONG)

    def leave_child():
        child = os.fork()
        if child == 0:
            time.sleep(LONG)
            os._exit(0)
        (HERE / "child").write_text(str(child))

    def leave_child_and_abort():
        leave_child()
        abort()

    @operation("custom.odd", reads=["MET_pt"], adds=["own"])
    def odd(events):
        globals()[(HERE / "does").read_text()]()
        return {"own": events["MET_pt"] * 2}
"""
PICTURE = """
    from cenote.analysis.renderers.interface import Renderer

    class OwnPicture(Renderer):
        "Draws."
        cenote_plugin: ClassVar = ("renderer", "own_picture")
        draws: ClassVar = ("histogram",)

        def draw(self, product, target, context):
            segfault()
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: [a.root]}]}
    analysis:
      stages:
        - {id: Odd, op: custom.odd%s}
        - id: H
          op: hep.hist
          params: {axes: [{name: x, type: regular, source: own, bins: {nbins: 20, low: 0, high: 200}}]}
          render: []
"""
BACKENDS = ("local", "dask")


@pytest.fixture
def own(desk: Desk) -> Desk:
    desk.muons("a.root", events=100)
    desk.write("ops.py", OPS)
    desk.write("flow.yaml", FLOW % "")
    return desk


def ends(desk: Desk, does: str, backend: str = "local") -> tuple[int, str]:
    """The exit code of the command, and what it says."""
    desk.write("does", does)
    told = desk.cenote("run", "flow.yaml", "--out", "out", "--backend", backend)
    return told.returncode, told.stdout + told.stderr


@pytest.mark.parametrize(("does", "name"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT"), ("group", "SIGKILL")])
def test_a_crash_is_told_with_its_stage_and_signal(own: Desk, does: str, name: str) -> None:
    code, told = ends(own, does)
    assert code == 21
    assert "Odd" in told
    assert f"killed by {name}" in told


def test_a_thread_that_is_left_behind_does_not_keep_the_command(own: Desk) -> None:
    code, told = ends(own, "leave_thread")
    assert code == 0
    assert "succeeded" in told


def test_a_renderer_that_crashes_the_command_leaves_its_stack(own: Desk) -> None:
    own.write("ops.py", (own.folder / "ops.py").read_text() + textwrap.dedent(PICTURE))
    own.write("flow.yaml", FLOW.replace("render: []", "render: {op: own_picture}") % "")
    code, told = ends(own, "leave_thread")
    assert code == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in told
    assert 'ops.py", line' in told


@pytest.mark.parametrize(("does", "code"), [("close_all", 21), ("close_all_and_stay", 21), ("break_numpy", 20)])
def test_what_own_code_breaks_is_no_fault_of_cenote(own: Desk, does: str, code: int) -> None:
    ended, told = ends(own, does)
    assert ended == code
    assert "internal error" not in told


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_timeout_ends_code_that_holds_the_lock_of_python(own: Desk, backend: str) -> None:
    own.write("flow.yaml", FLOW % ", execution: {timeout: 1}")
    code, told = ends(own, "hold_lock", backend)
    assert code == 20
    assert "Odd exceeded its time limit" in told
    assert "ran longer than its timeout of 1 s" in told


@pytest.mark.parametrize("environment", ["current", "started"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("does", ["leave_child", "leave_child_and_abort"])
def test_children_of_own_code_end_with_the_run(own: Desk, does: str, backend: str, environment: str) -> None:
    own.write("flow.yaml", FLOW % "" + f"    execution: {{environment: {environment}}}\n")
    code, _ = ends(own, does, backend)
    assert code == (0 if does == "leave_child" else 21)
    assert not is_alive(int((own.folder / "child").read_text()))


def test_what_is_right_gives_the_same_numbers_as_ever(own: Desk) -> None:
    assert ends(own, "leave_thread")[0] == 0
    assert cenote.open_run(own.folder / "out").product("H").values(flow=True).sum() == 100
