"""Test that backends and strategies of others are treated by what they are, not by their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import ClassVar

import pytest

from cenote.common.machine import Machine
from cenote.execution.backends.interface import Backend, Session, SessionRequest
from cenote.execution.backends.local.backend import LocalBackend
from cenote.execution.strategies.local.strategy import LocalStrategy
from cenote.language.availability import unavailable
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.read import Checked
from cenote.language.workflow import Workflow
from cenote.planning.placement.place import place

Load = Callable[..., Workflow]
AFTER = "\nanalysis: {stages: []}"
LAPTOP = Machine(cpus=2, memory=8 * 10**9)


class Desk(LocalStrategy):
    """Starts workers here, under another name."""


class Cloud(LocalStrategy):
    """Starts workers somewhere else."""

    starts_here: ClassVar[bool] = False


class Alone(LocalBackend):
    """Runs everything here, under another name."""


class Cluster(Backend):
    """Workers join it."""

    def open(self, request: SessionRequest) -> Session:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _plugins() -> None:
    for kind, name, plugin in (
        (PluginKind.STRATEGY, "desk", Desk),
        (PluginKind.STRATEGY, "cloud", Cloud),
        (PluginKind.BACKEND, "alone", Alone),
        (PluginKind.BACKEND, "cluster", Cluster),
    ):
        registry.add(kind, name, plugin)


@pytest.mark.parametrize(("strategy", "backend"), [("desk", "local"), ("cloud", "dask")])
def test_the_backend_follows_from_where_workers_start(workflow: Load, strategy: str, backend: str) -> None:
    assert workflow(f"execution: {{strategy: {strategy}}}" + AFTER).execution.backend == backend


def test_pools_that_start_here_are_scaled_to_this_machine(workflow: Load) -> None:
    pools = "{far: {workers: 99}, near: {workers: 99, strategy: desk}}"
    text = f"execution: {{backend: cluster, strategy: cloud, pools: {pools}}}"
    far, near = place(workflow(text + AFTER), LAPTOP).pools
    assert (far.starts_here, far.workers) == (False, 99)
    assert (near.starts_here, near.workers) == (True, 8)
    far, near = place(workflow(text + AFTER, backend="alone"), LAPTOP).pools
    assert (far.starts_here, far.workers) == (near.starts_here, near.workers) == (True, 2)


def test_a_backend_that_runs_everything_here_starts_no_workers(workflow: Load) -> None:
    _, warnings = unavailable(workflow("execution: {backend: alone, strategy: cloud}" + AFTER))
    assert [warning.split()[1] for warning in warnings] == ["'cloud'"]


def test_settings_of_another_strategy_are_a_warning_where_workers_are_elsewhere(read: Callable[..., Checked]) -> None:
    text = "execution: {pools: {p: {strategy: %s, config: {partition: gpu}}}}" + AFTER
    assert "partition" in str(read(text % "cloud").warnings)
    assert read(text % "desk").warnings == ()


def test_checking_a_file_imports_only_the_strategies_that_it_names() -> None:
    code = """if True:
        import sys
        from cenote.language.read import read_workflow
        from pathlib import Path
        assert read_workflow(Path('flow.yaml'), content=sys.stdin.buffer.read()).problems == ()
        others = ("cenote.execution.strategies.slurm", "distributed", "dask")
        loaded = [name for name in sys.modules if name.startswith(others)]
        sys.exit(str(loaded) if loaded else 0)"""
    text = "execution: {strategy: htcondor}" + AFTER
    done = subprocess.run([sys.executable, "-c", code], input=text, text=True, check=False, timeout=60)
    assert done.returncode == 0
