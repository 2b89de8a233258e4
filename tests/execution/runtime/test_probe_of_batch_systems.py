"""Test what a probe says of jobs that are refused, wait for ever, are held, fail, or cannot be asked for."""

from __future__ import annotations

import shlex
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.execution.probe.run import Pace, PoolProbe, ProbeResult, probe
from cenote.planning.plan import Plan
from cenote.planning.probes.result import Finding
from cenote.testing.muons import write_muons
from cenote.testing.scripted_shell import HANGS, INTERRUPTED, ScriptedShell, complains, scripted_shell

FLOW = """
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - id: H
          op: hep.hist
          params: {axes: [{name: met, type: regular, source: MET_pt, bins: {nbins: 4, low: 0, high: 9}}]}
    execution:
      backend: dask
      strategy: slurm
      config: {host: 127.0.0.1}
      pools: {default: {workers: 2, config: {walltime: 04:00:00}}}
"""
WAITS = "17|PENDING|Priority\n"


class Time:
    """A clock that goes on when somebody pauses; before that, `during` may do something."""

    def __init__(self, during: Callable[[float], None] | None = None) -> None:
        self.now = 0.0
        self._during = during

    def pause(self, seconds: float) -> None:
        self.now += max(seconds, 0.5)
        if self._during is not None:
            self._during(self.now)

    @property
    def pace(self) -> Pace:
        return Pace(lambda: self.now, self.pause)


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    write_muons(tmp_path / "a.root", events=10)
    (tmp_path / "flow.yaml").write_text(textwrap.dedent(FLOW))
    return tmp_path / "flow.yaml"


@pytest.fixture
def plan(flow: Path) -> Plan:
    return cenote.load(flow).plan()


def probed(plan: Plan, time: Time | None = None, **choices: Any) -> ProbeResult:
    out = plan.workflow.folder / "out"
    result = probe(plan, out, pace=(time or Time()).pace, **choices)
    assert not out.exists(), "nothing is left behind"
    return result


def job_of(result: ProbeResult) -> Finding:
    (pool,) = result.pools
    return next(finding for finding in pool.findings if finding.question == "job")


def test_a_refusal_is_told_in_the_words_of_the_batch_system(plan: Plan) -> None:
    with scripted_shell(sbatch=complains("sbatch: error: Invalid account or partition specified"), scancel=""):
        result = probed(plan)

    assert result.verdict == "problem"
    assert job_of(result).words == "refused: sbatch: error: Invalid account or partition specified"


def test_the_job_is_asked_for_as_a_worker_would_be(plan: Plan) -> None:
    with scripted_shell(sbatch=complains("sbatch: error: no"), scancel="") as played:
        probed(plan)

    script = played.inputs[0]
    assert "#SBATCH --time=04:00:00" in script
    assert "--job-name=cenote-probe-" in script
    assert "-m cenote.execution.probe.node " in script


def test_a_job_that_waits_too_long_is_cancelled_and_its_reason_told(plan: Plan) -> None:
    with scripted_shell(sbatch="17\n", squeue=WAITS, scancel="") as played:
        seen: list[PoolProbe] = []
        result = probed(plan, wait=60, listen=lambda pools: seen.extend(pools))

    assert job_of(result).words == "job 17 did not start within 1m (PENDING: Priority)"
    assert job_of(result).hint == "it was cancelled; --wait gives it longer"
    assert ("scancel", "17") in played.typed
    assert {pool.phase for pool in seen} >= {"waiting"}


def test_a_batch_system_that_is_down_is_asked_again(plan: Plan) -> None:
    down = complains("sbatch: error: Unable to contact slurm controller (connect failure)")
    with scripted_shell(sbatch=[down, down, "17\n"], squeue=WAITS, scancel="") as played:
        result = probed(plan, wait=60)
    assert played.times("sbatch") == 3
    assert "did not start" in job_of(result).words

    with scripted_shell(sbatch=HANGS, scancel=""):
        result = probed(plan, wait=60)
    assert job_of(result).words == "not taken: sbatch did not answer within 60 s"


def test_a_job_that_fails_is_told_with_its_last_lines(plan: Plan) -> None:
    with scripted_shell(sbatch="17\n", squeue="17|FAILED|NonZeroExitCode\n", scancel="") as played:
        played.says("scontrol", "JobId=17 JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0\n")
        result = probed(plan, Time(lambda _: _write_error(plan, "python: No module named 'cenote'")))

    assert job_of(result).words == "job 17 ended without a report (FAILED: it ended with exit code 1)"
    assert job_of(result).lines == ("python: No module named 'cenote'",)


def _write_error(plan: Plan, words: str) -> None:
    for folder in (plan.workflow.folder / "out" / "debug").glob("probe-*"):
        (folder / "err" / "default-1").write_text(f"{words}\n")


def test_a_held_job_is_told_with_the_reason_and_removed(flow: Path) -> None:
    held = '[{"ClusterId": 4, "ProcId": 0, "JobStatus": 5, "HoldReason": "no such file: /x", "HoldReasonCode": 13}]'
    plan = cenote.load(flow, strategy="htcondor").plan()
    with scripted_shell(condor_submit="4.0 - 4.0\n", condor_q=held, condor_history="[]", condor_rm="") as played:
        result = probed(plan)

    assert "HTCondor holds it: no such file: /x" in job_of(result).words
    assert ("condor_rm", "4.0") in played.typed


def test_a_report_is_read_from_the_jobs_output_where_the_network_is_closed(flow: Path) -> None:
    plan = cenote.load(flow, sets=["execution.config={contact: '127.0.0.1:9'}"]).plan()
    with scripted_shell(sbatch="17\n", scancel="") as played:
        played.says("squeue", "17|RUNNING|None\n")
        ran = _RunsHere(played, flow.parent)
        result = probed(plan, Time(ran))

    (pool,) = result.pools
    (network,) = [finding for finding in pool.findings if finding.question == "network"]
    assert network.words == "does not reach the driver at 127.0.0.1:9: Connection refused"
    assert job_of(result).verdict == "ok"
    assert [finding.question for finding in pool.findings if finding.verdict == "problem"] == ["network"]


class _RunsHere:
    """Runs the job that was handed in, once, and lets the batch system say that it is over."""

    def __init__(self, played: ScriptedShell, folder: Path) -> None:
        self._played, self._folder, self._done = played, folder, False

    def __call__(self, now: float) -> None:
        del now
        if self._done:
            return
        self._done = True
        script = next(text for text in self._played.inputs if "cenote.execution.probe.node" in text)
        (line,) = [line for line in script.splitlines() if line.startswith("exec ")]
        done = subprocess.run(shlex.split(line)[1:], cwd=self._folder, capture_output=True, text=True, check=True)
        (logs,) = (self._folder / "out" / "debug").glob("probe-*")
        (logs / "out" / "default-1").write_text(f"the prologue says hello\n{done.stdout}")
        self._played.says("squeue", "17|COMPLETED|None\n")
        self._played.says("scontrol", "JobId=17 JobState=COMPLETED Reason=None ExitCode=0:0\n")


def test_jobs_of_all_pools_are_cancelled_however_often_somebody_presses_ctrl_c(flow: Path) -> None:
    two = cenote.load(flow, sets=["execution.pools={default: {workers: 1}, more: {workers: 1}}"]).plan()

    def impatient(_: float) -> None:
        raise KeyboardInterrupt

    with scripted_shell(sbatch=["17\n", "18\n"], squeue=WAITS, scancel=[INTERRUPTED, ""]) as shell:
        with pytest.raises(KeyboardInterrupt):
            probed(two, Time(impatient))
        assert {words[-1] for words in shell.typed if words[0] == "scancel"} == {"17", "18"}
