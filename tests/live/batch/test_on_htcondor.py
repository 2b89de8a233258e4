"""On a real HTCondor: the same numbers, stages on their pools, and whatever happens to a job is told in its words."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from builders.credentials import GridAuthority
from cenote.engine.messages import JobChanged, TaskStarted
from cenote.testing.muons import write_muons

from .conftest import OWN_POOLS, SLOWLY, Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool
from .processes import until

OWN_MEANS = """
import os
from pathlib import Path
from cenote import operation

@operation("custom.look", scope="run", reads=["MET_pt"], product="object")
def look(events):
    files = {"token": "BEARER_TOKEN_FILE", "proxy": "X509_USER_PROXY"}
    return {name: Path(os.environ[variable]).read_text() for name, variable in files.items()}
"""
OWN_MEANS_FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Look, op: custom.look}]}
execution:
  backend: dask
  strategy: htcondor
  config: {host: 127.0.0.1, poll_every: 2s, x509userproxy: $MY_PROXY, oauth_services: [scitokens], transfer_files: true}
  pools: {default: {workers: 1}}
"""


def test_a_held_worker_is_replaced_and_the_reason_for_the_hold_is_told(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    def hold_one() -> bool:
        for job in htcondor.jobs("high_memory", status=2)[:1]:
            htcondor.ask("condor_hold", "-reason", "the administrator is curious", job)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="htcondor", disturb=hold_one)
    assert numbers(run) == workshop.local_numbers()
    lost = workshop.losses("high_memory")[0]  # another may come so late that it is gone with the run
    assert "the administrator is curious" in lost.reason


def test_a_worker_that_loses_its_machine_is_called_preempted_and_does_not_return(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    def vacate_one() -> bool:
        for job in htcondor.jobs("high_memory", status=2)[:1]:
            htcondor.ask("condor_vacate_job", job)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="htcondor", disturb=vacate_one)
    assert numbers(run) == workshop.local_numbers()
    assert workshop.losses("high_memory")[0].cause == "preempted"


def test_a_pool_without_machines_costs_time_and_nothing_else(workshop: Workshop, htcondor: HTCondorPool) -> None:
    gone = False

    def take_the_machine_away_and_bring_it_back() -> bool:
        nonlocal gone
        if not gone:
            htcondor.ask("condor_off", "-startd", "-fast")
            gone = True
        if htcondor.machines() or htcondor.jobs(status=2):
            return False
        htcondor.ask("condor_on", "-startd")
        return True

    run = workshop.run(SLOWLY, strategy="htcondor", disturb=take_the_machine_away_and_bring_it_back)
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run) == OWN_POOLS
    assert workshop.losses("high_memory")


def test_a_worker_waits_for_a_gpu_that_somebody_else_uses_and_why_says_so(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    other = htcondor.occupy(gpus=2)
    with workshop.driver("--strategy", "htcondor") as driver:
        until(lambda: any(job.reason for job in workshop.heard(JobChanged, pool="gpu")), "HTCondor's reason")
        assert "no match found" in workshop.why("RunInference")
        htcondor.ask("condor_rm", other)
        assert driver.wait(timeout=120) == 0
    assert numbers(cenote.open_run(workshop.out)) == workshop.local_numbers()


@pytest.mark.usefixtures("htcondor")
def test_a_request_that_no_machine_can_hold_is_refused_at_once_with_the_condition_that_none_meets(
    workshop: Workshop,
) -> None:
    run = workshop.run("execution.pools.high_memory.resources={memory: 9TB}", strategy="htcondor")
    assert run.status == "failed"
    assert "TARGET.Memory >= RequestMemory" in run.failures[0]["message"]
    assert {lost.cause for lost in workshop.losses("high_memory")} == {"refused"}
    assert not workshop.heard(TaskStarted)


def test_jobs_carry_a_proxy_and_tokens_by_htcondors_own_means(
    htcondor: HTCondorPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    htcondor.place_token("scitokens", "a token of HTCondor's own")
    proxy = GridAuthority(tmp_path / "authority").proxy()
    monkeypatch.setenv("MY_PROXY", str(proxy))
    write_muons(tmp_path / "a.root", events=10)
    (tmp_path / "ops.py").write_text(OWN_MEANS)
    (tmp_path / "flow.yaml").write_text(OWN_MEANS_FLOW)
    run = cenote.load(tmp_path / "flow.yaml").run(tmp_path / "out")
    assert run.status == "succeeded", str(run.failures)
    seen = run.product("Look")
    assert (seen["token"], seen["proxy"]) == ("a token of HTCondor's own", proxy.read_text())
