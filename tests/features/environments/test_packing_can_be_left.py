"""While a run packs an environment it says so, and can be ended: nothing of the run is there yet."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ..conftest import PATIENCE, Desk, wait_for

OPS = """
    import time
    from dataclasses import replace
    from pathlib import Path
    from typing import ClassVar
    from cenote.execution.environments.interface import Environment
    from cenote.execution.launch import words
    from cenote.execution.packing.archive import PackingStep

    HERE = Path(__file__).parent

    class Held(Environment):
        "Is being packed for as long as somebody wants."
        cenote_plugin: ClassVar = ("environment", "held")

        def prepare(self, progress):
            progress(PackingStep("compressing", 1_000_000, 5_000_000))
            (HERE / "packs").touch()
            while not (HERE / "go-on").exists():
                time.sleep(0.05)

        def complete(self, launch):
            import sys
            return replace(launch, interpreter=words(sys.executable))

        def describe(self):
            return {}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree}}
    analysis:
      stages:
        - id: H
          op: hep.hist
          params: {axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 20, low: 0, high: 200}}]}
    execution: {environment: held}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=100)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def test_ctrl_c_ends_it_and_leaves_no_run(desk: Desk, flow: Path) -> None:
    with desk.started("run", flow.name) as process:
        wait_for((desk.folder / "packs").exists)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, output
    assert "held: compressing, 1 MB of 5 MB" in output
    assert not (desk.folder / "out" / "flow" / "journal.jsonl").exists()


@pytest.mark.parametrize("command", ["run", "probe"])
def test_it_is_told_before_the_first_worker(desk: Desk, flow: Path, command: str) -> None:
    (desk.folder / "go-on").touch()
    done = desk.cenote(command, flow.name)
    assert done.returncode == 0, done.stderr
    assert "held: compressing, 1 MB of 5 MB" in done.stderr
