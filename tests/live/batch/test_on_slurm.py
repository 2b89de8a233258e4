"""On a real Slurm: the same numbers, stages on their pools, and whatever happens to a job is told in Slurm's words."""

from __future__ import annotations

import pytest

from cenote.engine.messages import TaskStarted

from .conftest import SLOWLY, Workshop, numbers, pools_of
from .slurm_cluster import SlurmCluster


def test_a_cancelled_worker_is_replaced_and_slurms_word_is_told(workshop: Workshop, slurm: SlurmCluster) -> None:
    def cancel_one() -> bool:
        for job, _ in slurm.jobs("high_memory")[:1]:
            slurm.ask("scancel", job)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=cancel_one)
    assert numbers(run) == workshop.local_numbers()
    lost = workshop.losses("high_memory")[0]  # another may come so late that it is gone with the run
    assert "CANCELLED" in lost.reason


@pytest.mark.usefixtures("slurm")
def test_a_request_that_no_node_can_hold_is_refused_at_once_in_slurms_words(workshop: Workshop) -> None:
    run = workshop.run("execution.pools.high_memory.resources={memory: 9TB}", strategy="slurm")
    assert run.status == "failed"
    assert "Requested node configuration is not available" in run.failures[0]["message"]
    assert "no partition has a node with 1 CPU, 9 TB" in run.failures[0]["message"]
    assert {lost.cause for lost in workshop.losses("high_memory")} == {"refused"}
    assert not workshop.heard(TaskStarted)


@pytest.mark.usefixtures("slurm")
def test_a_request_that_another_partition_can_hold_names_it(workshop: Workshop) -> None:
    large = "execution.pools.high_memory={workers: 1, resources: {memory: 128GB}, config: {partition: dead}}"
    run = workshop.run(large, strategy="slurm")
    assert run.status == "failed"
    assert "these could hold it: main, urgent; choose one by `config: {partition: main}`" in run.failures[0]["message"]


def test_a_lost_node_costs_time_and_nothing_else(workshop: Workshop, slurm: SlurmCluster) -> None:
    def lose_one() -> bool:
        for _, node in slurm.jobs("high_memory")[:1]:
            slurm.lose(node)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=lose_one)
    assert numbers(run) == workshop.local_numbers()
    assert workshop.losses("high_memory")


def test_a_preempted_worker_is_called_preempted(workshop: Workshop, slurm: SlurmCluster) -> None:
    def preempt() -> bool:
        for _, node in slurm.jobs("high_memory")[:1]:
            options = ["--partition=urgent", f"--nodelist={node}", "--exclusive", "--time=1", "--output=/dev/null"]
            slurm.ask("sbatch", *options, "--wrap=sleep 1")
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=preempt)
    assert numbers(run) == workshop.local_numbers()
    assert {lost.cause for lost in workshop.losses("high_memory")} == {"preempted"}


@pytest.mark.usefixtures("slurm")
def test_work_for_a_partition_without_nodes_falls_back_with_slurms_reason(workshop: Workshop) -> None:
    run = workshop.run(
        "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}, fallback: [default],"
        " fallback_when: {no_worker_for: 5s}}",
        strategy="slurm",
    )
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run)["RunInference"] == {"default"}
    assert "no_worker_for" in run.summary["fallbacks"][0]["reason"]
    assert "down" in run.summary["fallbacks"][0]["reason"].lower()


@pytest.mark.usefixtures("slurm")
def test_work_for_a_partition_without_nodes_is_given_up_in_time_with_slurms_reason(workshop: Workshop) -> None:
    run = workshop.run(
        "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}, queue_timeout: 8s}", strategy="slurm"
    )
    assert run.status == "failed"
    (failure,) = {failure["message"] for failure in run.failures}
    assert "'gpu'" in failure
    assert "required for job are DOWN" in failure


@pytest.mark.usefixtures("slurm")
def test_a_worker_beyond_its_memory_is_told_so_and_its_work_goes_to_a_larger_pool(workshop: Workshop) -> None:
    in_one_piece = "sources.events.chunk_size=3000"
    run = workshop.run(
        in_one_piece,
        "analysis.stages.RunInference.params={megabytes: 600}",
        "execution.pools.gpu={resources: {gpus: null, memory: 500MB}, fallback: [high_memory],"
        " fallback_when: {oom: true}}",
        strategy="slurm",
    )
    assert numbers(run) == workshop.local_numbers(in_one_piece)
    assert "oom" in {lost.cause for lost in workshop.losses("gpu")}
    assert pools_of(run)["RunInference"] == {"high_memory"}
