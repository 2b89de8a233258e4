"""Workers get an environment that is made: the usual variables and those that are named, and nobody's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from builders.ended_services import end_service
from cenote.service.client.connection import connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.server.profiles import Profiles

from ..conftest import Desk

SECRETS = (
    "OWNER_SECRET",
    "X509_USER_PROXY",
    "BEARER_TOKEN_FILE",
    "BEARER_TOKEN",
    "KRB5CCNAME",
    "AWS_SECRET_ACCESS_KEY",
    "https_proxy",
    "DASK_COILED__TOKEN",
)
OPS = """
import os, sys
from dataclasses import replace
from typing import ClassVar

from cenote import operation
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import words


class Here(Environment):
    cenote_plugin: ClassVar = ("environment", "in-processes")  # of their own, also for little work

    def complete(self, launch):
        return replace(launch, interpreter=words(sys.executable))

    def describe(self):
        return {}


@operation("custom.show", scope="run", reads=["MET_pt"], product="object")
def show(events, *, needed: str = "HOME"):
    os.environ[needed]
    return dict(os.environ)
"""
FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Show, op: custom.show}]}
execution:
  environment: in-processes
  pass_variables: [CALIBRATION, ANALYSIS_*]
  pools: {default: {workers: 1}}
"""


@pytest.fixture
def shell(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Somebody's shell, and a workflow that shows what its workers have of it."""
    desk.muons("a.root", events=10)
    desk.write("ops.py", OPS)
    desk.write("flow.yaml", FLOW)
    for name in (*SECRETS, "CALIBRATION", "ANALYSIS_TAG", "LC_TIME", "CMSSW_BASE", "OTHER"):
        monkeypatch.setenv(name, f"the {name}")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    return desk


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_workers_have_the_usual_variables_and_those_that_are_named_and_no_others(shell: Desk, backend: str) -> None:
    sets = ["execution.credentials=none"] if backend == "local" else []
    run = cenote.load(shell.folder / "flow.yaml", backend=backend, sets=sets).run(shell.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    seen = run.product("Show")
    assert {name for name in (*SECRETS, "OTHER") if name in seen} == set()
    assert [seen[name] for name in ("CALIBRATION", "ANALYSIS_TAG", "LC_TIME", "CMSSW_BASE")] == [
        "the CALIBRATION",
        "the ANALYSIS_TAG",
        "the LC_TIME",
        "the CMSSW_BASE",
    ]
    assert seen["OMP_NUM_THREADS"] == "3"
    assert {"HOME", "PATH"} <= seen.keys()


def test_where_everything_runs_here_tasks_find_credentials_as_the_driver_does(shell: Desk) -> None:
    seen = cenote.load(shell.folder / "flow.yaml", backend="local").run(shell.folder / "out").product("Show")
    assert seen["X509_USER_PROXY"] == "the X509_USER_PROXY"
    assert not {"OWNER_SECRET", "AWS_SECRET_ACCESS_KEY"} & set(seen)


def test_a_task_that_misses_a_variable_is_told_how_to_pass_it(shell: Desk) -> None:
    sets = ["analysis.stages.Show.params={needed: OTHER}"]
    run = cenote.load(shell.folder / "flow.yaml", backend="dask", sets=sets).run(shell.folder / "out")
    assert "OTHER is not an environment variable of this worker" in str(run.failures)
    assert "`execution.pass_variables`" in str(run.failures)


def test_what_cannot_name_a_variable_is_refused(shell: Desk) -> None:
    done = shell.typed("check", "flow.yaml", "--set", "execution.pass_variables=['*']")
    assert done.returncode == 10
    assert "should be the name of an environment variable, or how several begin" in done.stderr


def test_tasks_of_a_service_see_nothing_of_the_shell_that_started_it(
    shell: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder / "state"))
    monkeypatch.delenv("CENOTE_SERVICE", raising=False)
    with connect() as connection:
        try:
            with connection.create_pool("pool", "local", 1) as pool:
                task = connection.create_task("look", pool, 1)
                task.command = "env"
                task.constants["MASS"] = "125"
                assert task.run(quiet=True)
                seen = dict(line.partition("=")[::2] for line in task.stdout().splitlines())
        finally:
            end_service(ServiceHome(usual_home()), connection.service.pid)
    assert {name for name in (*SECRETS, "OTHER", "CALIBRATION") if name in seen} == set()
    assert (seen["MASS"], seen["LC_TIME"]) == ("125", "the LC_TIME")


def test_the_owner_of_a_service_passes_variables_by_its_file(shell: Desk) -> None:
    file = shell.write("pools.yaml", "execution: {pass_variables: CALIBRATION, pools: {default: {workers: 1}}}")
    (pool,) = Profiles(Path(file)).pools
    assert pool.pass_variables == ("CALIBRATION",)
