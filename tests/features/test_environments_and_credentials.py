"""An environment or a credential is one class: what it adds reaches every worker, however the worker is started."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

import cenote
from cenote.errors import CenoteError
from cenote.launch import Sent, SentFile
from cenote.runtime.sent_files import SentFiles
from cenote.testing.launches import a_launch

from .conftest import Desk

PLUGINS = """
import os, stat, sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cenote import operation
from cenote.credentials.interface import Credential
from cenote.environments.interface import Environment
from cenote.errors import ENVIRONMENT, Problem
from cenote.launch import NodeVariable, Sent, SentFile, words

HERE = Path(__file__).parent


class Boxed(Environment):
    cenote_plugin: ClassVar = ("environment", "boxed")

    greeting: str

    def complete(self, launch):
        launch = replace(
            launch,
            interpreter=words((NodeVariable("BOX"), "/python")),
            files=(*launch.files, SentFile(HERE / "box.sh")),
            setup=(*launch.setup, (". ", Sent("box.sh"), " || exit 71  # it sets BOX")),
        )
        return launch.with_variables(GREETING=self.greeting)

    def describe(self):
        return {"digest": "d1"}

    def check(self):
        if not (HERE / "box.sh").exists():
            yield Problem(ENVIRONMENT, "the box is not there")


class Pass(Credential):
    cenote_plugin: ClassVar = ("credential", "pass")

    def complete(self, launch):
        launch = replace(launch, files=(*launch.files, SentFile(HERE / "pass.txt", mode=0o600)))
        return launch.with_variables(PASS_FILE=(Sent("pass.txt"),))


class SecondPass(Pass):
    cenote_plugin: ClassVar = ("credential", "second")

    def complete(self, launch):
        other = HERE / "elsewhere" / "pass.txt"
        return replace(launch, files=(*launch.files, SentFile(other, mode=0o600)))


class Broken(Pass):
    cenote_plugin: ClassVar = ("credential", "broken")

    def check(self, now):
        raise RuntimeError("no ticket")


@operation("custom.passed", scope="run", reads=["MET_pt"], product="object")
def passed(events):
    return {"pass": Path(os.environ["PASS_FILE"]).read_text()}


@operation("custom.show", scope="run", reads=["MET_pt"], product="object")
def show(events):
    file = Path(os.environ["PASS_FILE"])
    return {
        "greeting": os.environ["GREETING"],
        "worker": os.environ.get("BOXED"),
        "python": os.environ["BOX"],
        "pass": file.read_text(),
        "mode": stat.S_IMODE(file.stat().st_mode),
        "private": stat.S_IMODE(file.parent.parent.stat().st_mode),
        "file": str(file),
    }
"""
FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Show, op: custom.show}]}
execution:
  environment: {type: boxed, greeting: it's $HOME}
  credentials: pass
  pools: {default: {workers: 1}}
"""


@pytest.fixture
def user(desk: Desk) -> Desk:
    desk.muons("a.root", events=10)
    desk.write("ops.py", PLUGINS)
    desk.write("flow.yaml", FLOW)
    box = desk.folder / "the box"
    box.mkdir()
    python = box / "python"
    python.write_text(f'#!/bin/sh\nexport BOXED=yes\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    desk.write("box.sh", f"BOX='{box}'\nexport BOX\n")
    desk.write("pass.txt", "secret").chmod(0o644)
    return desk


@pytest.mark.parametrize("backend", ["dask", "local"])
def test_variables_files_and_set_up_lines_reach_a_worker(user: Desk, backend: str) -> None:
    run = cenote.load(user.folder / "flow.yaml", backend=backend).run(user.folder / "out")
    assert run.status == "succeeded", run.failures
    seen = run.product("Show")
    assert (seen["greeting"], seen["worker"], seen["pass"]) == ("it's $HOME", "yes", "secret")
    assert seen["python"] == str(user.folder / "the box")
    assert (seen["mode"], seen["private"]) == (0o600, 0o700)
    assert seen["file"].startswith(str(user.folder / "out"))
    assert not (user.folder / "out" / "debug" / "distributed" / "sent").exists()
    recorded = json.loads((user.folder / "out" / "provenance.json").read_text())["environments"]
    assert recorded == {"default": {"type": "boxed", "digest": "d1"}}


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("slurm", ["export GREETING='it'\"'\"'s $HOME'\n", '/box.sh || exit 71  # it sets BOX\nexec "${BOX}"/python']),
        ("htcondor", ["executable = /bin/sh\n", "box.sh || exit 71", '""$(DOLLAR){BOX}""/python']),
        ("local", ["export GREETING=", "box.sh || exit 71", '"${BOX}"/python']),
    ],
)
def test_they_are_in_what_is_submitted(user: Desk, strategy: str, words: list[str]) -> None:
    shown = user.cenote("plan", "flow.yaml", "--show-jobs", "--backend", "dask", "--strategy", strategy)
    assert shown.returncode == 0, shown.stderr
    assert [word for word in words if word not in shown.stdout] == []
    assert "secret" not in shown.stdout


def test_with_file_transfer_htcondor_sends_the_files_and_finds_them_in_the_jobs_own_folder(user: Desk) -> None:
    sets = ["--set", "execution.config={transfer_files: true}"]
    shown = user.cenote("plan", "flow.yaml", "--show-jobs", "--backend", "dask", "--strategy", "htcondor", *sets)
    assert f", {user.folder}/box.sh, {user.folder}/pass.txt\n" in shown.stdout
    assert "$(DOLLAR){_CONDOR_SCRATCH_DIR}" in shown.stdout


def test_a_pool_may_have_its_own_and_none(user: Desk) -> None:
    sets = ["execution.pools.default={workers: 1, environment: current, credentials: none}"]
    plan = cenote.load(user.folder / "flow.yaml", sets=sets, backend="dask").plan()
    execution = plan.workflow.execution
    assert execution.environment_of("default") == {"type": "current"}
    assert execution.credentials_of("default") == ({"type": "none"},)
    here = cenote.load(user.folder / "flow.yaml", sets=sets, backend="local").plan()
    assert any("environment" in warning for warning in here.warnings)


def test_what_is_wrong_with_it_is_said_before_anything_starts(user: Desk) -> None:
    (user.folder / "box.sh").unlink()
    with pytest.raises(CenoteError, match="the box is not there"):
        cenote.load(user.folder / "flow.yaml", backend="dask").run(user.folder / "out")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("environment=boxd", "there is no environment 'boxd'"),
        ("environment={type: boxed, greting: x}", "greting"),
        ("credentials=[pas]", "there is no credential 'pas'"),
    ],
)
def test_slips_are_found_in_the_file(user: Desk, setting: str, words: str) -> None:
    told = user.cenote("check", "flow.yaml", "--set", f"execution.{setting}")
    assert told.returncode != 0
    assert words in told.stdout + told.stderr


def test_a_copy_follows_its_original(user: Desk) -> None:
    original = user.folder / "pass.txt"
    sent = SentFiles(user.folder / "sent")
    launch = sent.keep(a_launch("cat", (Sent("pass.txt"),), files=(SentFile(original, mode=0o600),)))
    (_, shown), _ = launch.here("gpu-1")
    copy = Path(shown)
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("secret", 0o600)
    user.write("pass.txt", "another")
    sent.refresh()
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("another", 0o600)
    sent.remove()
    assert not copy.exists()


PASSED = FLOW.replace("custom.show", "custom.passed").replace("{type: boxed, greeting: it's $HOME}", "current")


def test_a_credential_reaches_tasks_also_where_the_work_is_small_enough_for_the_driver(user: Desk) -> None:
    user.write("passed.yaml", PASSED)
    run = cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    assert run.product("Show") == {"pass": "secret"}


def test_two_files_of_one_name_are_refused(user: Desk) -> None:
    user.write("passed.yaml", PASSED.replace("credentials: pass", "credentials: [pass, second]"))
    with pytest.raises(CenoteError, match="two different files named"):
        cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")


def test_what_a_credential_raises_is_its_own_fault_with_its_place(user: Desk) -> None:
    user.write("passed.yaml", PASSED.replace("credentials: pass", "credentials: broken"))
    with pytest.raises(CenoteError) as raised:
        cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    (problem,) = raised.value.problems
    assert (problem.kind.name, problem.place is not None) == ("bad-plugin", True)
    assert "no ticket" in problem.message


def test_a_pool_of_the_local_backend_is_recorded_with_what_it_really_had(user: Desk) -> None:
    pools = "pools: {default: {workers: 1, environment: {type: boxed, greeting: hello}, credentials: none}}"
    user.write("passed.yaml", PASSED.replace("pools: {default: {workers: 1}}", pools))
    run = cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    assert run.product("Show") == {"pass": "secret"}, "the run's credential"
    assert {"environment", "credentials"} <= {word for text in run.warnings for word in text.replace(":", " ").split()}
    recorded = json.loads((user.folder / "out" / "provenance.json").read_text())["environments"]
    assert recorded["default"]["type"] == "current"
