"""On a real HTCondor: the same numbers, stages on their pools, and whatever happens to a job is told in its words."""

from __future__ import annotations

from .conftest import OWN_POOLS, SLOWLY, Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool


def test_three_pools_give_the_local_numbers_and_leave_no_job(workshop: Workshop, htcondor: HTCondorPool) -> None:
    run = workshop.run(strategy="htcondor")
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run) == OWN_POOLS
    htcondor.wait_until_empty()


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
    (lost,) = workshop.losses("high_memory")
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
    assert [lost.cause for lost in workshop.losses("high_memory")] == ["preempted"]


def test_a_request_that_no_machine_can_hold_waits_and_says_which_condition_none_meets(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    run = workshop.run(
        "execution.pools.gpu={resources: {memory: 9TB, gpus: null}, fallback: [default],"
        " fallback_when: {no_worker_for: 12s}}",
        strategy="htcondor",
    )
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run)["RunInference"] == {"default"}
    assert "TARGET.Memory >= RequestMemory" in run.summary["fallbacks"][0]["reason"]
    htcondor.wait_until_empty()


def test_workers_leave_before_their_walltime_and_others_take_over(workshop: Workshop, htcondor: HTCondorPool) -> None:
    run = workshop.run(
        "analysis.stages.BuildIndex.params={seconds: 3}",
        "execution.pools.high_memory.config={walltime: 40s}",  # of which the last half minute is for handing over
        strategy="htcondor",
    )
    assert numbers(run) == workshop.local_numbers()
    assert {lost.cause for lost in workshop.losses("high_memory")} == {"walltime"}
    htcondor.wait_until_empty()
