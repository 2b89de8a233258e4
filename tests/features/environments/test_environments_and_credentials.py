"""An environment or a credential is one class: what it adds reaches every worker, however the worker is started."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import cenote
from cenote.common.errors import CenoteError
from cenote.engine.messages import AnyEvent, CredentialRenewed, TaskDone, Warned
from cenote.execution.runtime import credential_watch
from cenote.planning.plan import Plan

from ..conftest import Desk, wait_for

PLUGINS = """
import os, stat, sys, time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cenote import operation
from cenote.execution.credentials.interface import FILE, Credential, CredentialFacts
from cenote.execution.environments.interface import Environment
from cenote.common.errors import ENVIRONMENT, Problem
from cenote.execution.launch import NodeVariable, Sent, SentFile, words

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


class TwoBoxes(Boxed):
    cenote_plugin: ClassVar = ("environment", "two-boxes")

    def complete(self, launch):
        launch = super().complete(launch)
        return replace(launch, files=(*launch.files, SentFile(HERE / "elsewhere" / "box.sh")))


class Pass(Credential):
    cenote_plugin: ClassVar = ("credential", "pass")

    ends: float = 4e9

    def check(self, now):
        if (HERE / "open.txt").exists():
            yield Problem(ENVIRONMENT, "the pass is open to others")
        if b"stale" in self.read():
            yield Problem(ENVIRONMENT, "the pass is stale")

    def facts(self):
        told = HERE / "ends.txt"
        ends = float(told.read_text()) if told.exists() else self.ends
        return CredentialFacts(str(HERE / "pass.txt"), subject="me", ends=ends)

    def read(self):
        return (HERE / "pass.txt").read_bytes()

    def variables(self):
        return {"PASS_FILE": FILE, "OTHER_PASS": None}


class Renewed(Pass):
    cenote_plugin: ClassVar = ("credential", "renewed")

    ends: float = time.time() + 600

    @property
    def renews(self):
        return True

    def renew(self):
        if (HERE / "issuer").exists():
            (HERE / "new.txt").write_text("renewed")
            (HERE / "new.txt").replace(HERE / "pass.txt")
        else:
            raise OSError("the issuer is away")


class Broken(Pass):
    cenote_plugin: ClassVar = ("credential", "broken")

    def check(self, now):
        raise RuntimeError("no ticket")


class Odd(Pass):
    cenote_plugin: ClassVar = ("credential", "odd")

    odd: str

    def facts(self):
        odd = {"found": None, "ends": float("inf"), "details": {"a": 1}}
        return replace(super().facts(), **{self.odd: odd[self.odd]}) if self.odd in odd else super().facts()

    def read(self):
        return "text" if self.odd == "read" else super().read()

    def variables(self):
        odd = {"value": {"A": 1}, "name": {"A=B": FILE}, "zero": {"A": "a\\0b"}, "raises": None}
        return dict(odd[self.odd]) if self.odd in odd else super().variables()


@operation("custom.passed", scope="run", reads=["MET_pt"], product="object")
def passed(events):
    return {"pass": Path(os.environ["PASS_FILE"]).read_text()}


@operation("custom.nap", reads=["MET_pt"], product="object", merge=list)
def nap(events):
    time.sleep(0.8)
    return 1


@operation("custom.wait", scope="run", reads=["MET_pt"], product="object")
def wait(events):
    file = Path(os.environ["PASS_FILE"])
    (HERE / "seen").write_text(file.read_text())
    until = time.monotonic() + 60
    while file.read_text() == "secret" and time.monotonic() < until:
        time.sleep(0.05)
    return {"pass": file.read_text(), "mode": stat.S_IMODE(file.stat().st_mode), "other": "OTHER_PASS" in os.environ}


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
        "other": "OTHER_PASS" in os.environ,
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
def test_variables_files_and_set_up_lines_reach_a_worker(
    user: Desk, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_PASS", "secret too")
    run = cenote.load(user.folder / "flow.yaml", backend=backend).run(user.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    seen = run.product("Show")
    assert (seen["greeting"], seen["worker"], seen["pass"]) == ("it's $HOME", "yes", "secret")
    assert seen["python"] == str(user.folder / "the box")
    assert not seen["other"]
    if backend == "dask":  # a worker that runs here reads the user's own file
        assert (seen["mode"], seen["private"]) == (0o600, 0o700)
        assert not Path(seen["file"]).exists()
    assert os.environ["OTHER_PASS"] == "secret too"
    assert "PASS_FILE" not in os.environ
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
    assert f", {user.folder}/box.sh\n" in shown.stdout
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


def test_check_finds_it_too_and_says_where_it_is_named(user: Desk) -> None:
    (user.folder / "box.sh").unlink()
    flow = cenote.load(user.folder / "flow.yaml", backend="dask")
    (problem,) = flow.check().problems
    line = next(i for i, text in enumerate((user.folder / "flow.yaml").read_text().splitlines(), 1) if "boxed" in text)
    assert (problem.message, problem.place and problem.place.line) == ("the box is not there", line)
    assert flow.check(read_files=False).ok


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("environment=boxd", "there is no environment 'boxd'"),
        ("environment={type: boxed, greting: x}", "greting"),
        ("environment={type: packed-venv, variables: {A B: x}}", "'A B' cannot name an environment variable"),
        ("environment={type: packed-venv, scratch: here}", "should be an absolute path on the node, not 'here'"),
        ("credentials=[pas]", "there is no credential 'pas'"),
    ],
)
def test_slips_are_found_in_the_file(user: Desk, setting: str, words: str) -> None:
    told = user.cenote("check", "flow.yaml", "--set", f"execution.{setting}")
    assert told.returncode != 0
    assert words in told.stdout + told.stderr


WAITS = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Wait, op: custom.wait}]}
execution:
  credentials: pass
  pools: {default: {workers: 1}}
"""


def run_while(user: Desk, meanwhile: Callable[[list[AnyEvent]], None]) -> tuple[cenote.Run, list[AnyEvent]]:
    """Run it on Dask, and do something else meanwhile, once a task has begun."""
    heard: list[AnyEvent] = []

    def act() -> None:
        wait_for(lambda: (user.folder / "seen").exists())
        meanwhile(heard)

    threading.Thread(target=act, daemon=True).start()
    flow = cenote.load(user.folder / "flow.yaml", backend="dask")
    return flow.run(user.folder / "out", hear=lambda _, event: heard.append(event)), heard


def put_in_place(user: Desk, name: str, text: str) -> None:
    """In one piece, as tools that renew credentials do."""
    user.write(f"{name}.new", text).replace(user.folder / name)


def test_a_credential_that_changes_reaches_the_task_that_runs(user: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_watch, "LOOK_EVERY", 0.1)
    user.write("flow.yaml", WAITS)

    def change(heard: list[AnyEvent]) -> None:
        put_in_place(user, "pass.txt", "stale")  # which is not sent
        wait_for(lambda: any(isinstance(event, Warned) and "stale" in event.message for event in heard))
        put_in_place(user, "pass.txt", "new")

    run, heard = run_while(user, change)
    assert run.product("Wait") == {"pass": "new", "mode": 0o600, "other": False}
    assert [event.credential for event in heard if isinstance(event, CredentialRenewed)] == ["pass"]
    assert any("stale" in warning for warning in run.warnings)


def test_a_new_credential_with_a_problem_is_not_sent_until_the_problem_is_gone(
    user: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it ends later than the one that workers have: its file may be open to other users."""
    monkeypatch.setattr(credential_watch, "LOOK_EVERY", 0.1)
    user.write("flow.yaml", WAITS)

    def change(heard: list[AnyEvent]) -> None:
        user.write("open.txt", "")
        user.write("ends.txt", "5e9")
        put_in_place(user, "pass.txt", "new")
        wait_for(lambda: any(isinstance(event, Warned) and "is open" in event.message for event in heard))
        assert not any(isinstance(event, CredentialRenewed) for event in heard)
        (user.folder / "open.txt").unlink()  # as chmod does, which leaves the contents as they are

    run, _ = run_while(user, change)
    assert run.product("Wait")["pass"] == "new"


def test_a_credential_is_renewed_before_it_ends(user: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_watch, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(credential_watch, "RENEW_AGAIN", 0.1)
    user.write("flow.yaml", WAITS.replace("credentials: pass", "credentials: renewed"))

    def come_back(heard: list[AnyEvent]) -> None:
        wait_for(lambda: any(isinstance(event, Warned) and "is away" in event.message for event in heard))
        user.write("issuer", "")

    run, heard = run_while(user, come_back)
    assert run.product("Wait")["pass"] == "renewed"
    assert len([event for event in heard if isinstance(event, Warned)]) == 1, "each problem is told of once"


PASSED = FLOW.replace("custom.show", "custom.passed").replace("{type: boxed, greeting: it's $HOME}", "current")


def test_a_credential_reaches_tasks_also_where_the_work_is_small_enough_for_the_driver(user: Desk) -> None:
    user.write("passed.yaml", PASSED)
    run = cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    assert run.product("Show") == {"pass": "secret"}


def test_two_files_of_one_name_are_refused(user: Desk) -> None:
    user.write("flow.yaml", FLOW.replace("boxed", "two-boxes"))
    with pytest.raises(CenoteError, match="two different files named"):
        cenote.load(user.folder / "flow.yaml", backend="local").run(user.folder / "out")


def test_what_a_credential_raises_is_its_own_fault_with_its_place(user: Desk) -> None:
    user.write("passed.yaml", PASSED.replace("credentials: pass", "credentials: broken"))
    with pytest.raises(CenoteError) as raised:
        cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    (problem,) = raised.value.problems
    assert (problem.kind.name, problem.place is not None) == ("bad-plugin", True)
    assert "no ticket" in problem.message


@pytest.mark.parametrize("odd", ["found", "ends", "details", "read", "value", "name", "zero", "raises"])
def test_a_credential_that_hands_out_nonsense_is_a_bad_plugin(user: Desk, odd: str) -> None:
    user.write("passed.yaml", PASSED.replace("credentials: pass", f"credentials: {{type: odd, odd: {odd}}}"))
    with pytest.raises(CenoteError) as raised:
        cenote.load(user.folder / "passed.yaml", backend="dask").run(user.folder / "out")
    assert [problem.kind.name for problem in raised.value.problems] == ["bad-plugin"]


def test_a_pool_of_the_local_backend_is_recorded_with_what_it_really_had(user: Desk) -> None:
    pools = "pools: {default: {workers: 1, environment: {type: boxed, greeting: hello}, credentials: none}}"
    user.write("passed.yaml", PASSED.replace("pools: {default: {workers: 1}}", pools))
    run = cenote.load(user.folder / "passed.yaml", backend="local").run(user.folder / "out")
    assert run.product("Show") == {"pass": "secret"}, "the run's credential"
    assert {"environment", "credentials"} <= {word for text in run.warnings for word in text.replace(":", " ").split()}
    recorded = json.loads((user.folder / "out" / "provenance.json").read_text())["environments"]
    assert recorded["default"]["type"] == "current"


def test_one_that_ends_before_the_work_is_warned_of_while_it_runs_and_at_the_next_plan(
    user: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run knows from the first how long its tasks take; the first finds out. Tasks wait for a new one."""
    monkeypatch.setattr(credential_watch, "LOOK_EVERY", 0.1)
    for number in range(10):
        user.muons(f"many-{number}.root", events=10)
    flow = WAITS.replace("a.root", "many-*.root").replace("id: Wait, op: custom.wait", "id: Nap, op: custom.nap")
    user.write("flow.yaml", flow)
    done = []

    def replace_pass(ends: float) -> None:
        put_in_place(user, "ends.txt", str(ends))
        put_in_place(user, "pass.txt", f"until {ends}")

    def hear(_: Plan, event: AnyEvent) -> None:
        if isinstance(event, TaskDone):
            done.append(event.task)
            if len(done) == 4:
                replace_pass(time.time() + 2.0)
        elif isinstance(event, Warned) and "tasks of pool 'default' wait" in event.message:
            replace_pass(4e9)

    run = cenote.load(user.folder / "flow.yaml", backend="local").run(user.folder / "out", workers=1, hear=hear)
    assert run.status == "succeeded"
    assert any("Nap is predicted to end" in warning for warning in run.warnings), run.warnings
    assert any("there is no new one" in warning for warning in run.warnings), run.warnings
    replace_pass(time.time() + 5.0)
    plan = cenote.load(user.folder / "flow.yaml", backend="local", sets=["execution.pools.default.workers=1"]).plan()
    assert any("Nap is predicted to end" in warning for warning in plan.warnings)


def test_a_plan_shows_the_software_of_each_pool_where_it_is_not_that_of_the_command(user: Desk) -> None:
    sets = ["--set", "execution.pools.big={workers: 1, environment: {type: current}}"]
    shown = user.typed("plan", "flow.yaml", "--backend", "dask", *sets)
    lines = [line.split() for line in shown.stdout.splitlines()]
    start = lines.index(["environment", "default", "boxed", "(greeting:", "it's", "$HOME)"])
    assert lines[start + 1] == ["big", "current"]
    told = json.loads(user.typed("plan", "flow.yaml", "--backend", "dask", "--json", *sets).stdout)
    assert {pool["name"]: pool["environment"] for pool in told["pools"]} == {"default": "boxed", "big": "current"}
    plain = user.typed("plan", "flow.yaml", "--set", "execution.environment=current")
    assert "environment" not in plain.stdout.replace("`environment`", "")
