"""Rule 7: the same file runs on one machine, scaled down, and what is missing is named once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.common import errors
from cenote.common.machine import Machine
from cenote.language.execution import Amounts, Elastic, Pool, PoolSize
from cenote.language.read import read_workflow
from cenote.language.workflow import Execution, Requirement, Stage, Workflow
from cenote.planning.placement.place import place
from cenote.planning.placement.pools import PlacedPool, Verdict

GB = 10**9
NOTHING = Amounts()
LAPTOP = Machine(cpus=4, memory=16 * GB)


def a_workflow(*pools: Pool, asks: Amounts = NOTHING, backend: str = "local") -> Workflow:
    """One stage for each pool."""
    stages = tuple(
        Stage(f"on_{pool.name}", "op", requirement=Requirement(pool=pool.name, amounts=asks)) for pool in pools
    )
    return Workflow(Path("flow.yaml"), Path(), stages=stages, execution=Execution(pools=pools, backend=backend))


def here(pool: Pool, *, machine: Machine = LAPTOP, asks: Amounts = NOTHING, backend: str = "local") -> PlacedPool:
    return place(a_workflow(pool, asks=asks, backend=backend), machine, on_this_machine=True).pool(pool.name)


def test_missing_hardware_is_named_once_per_pool_and_the_stages_still_run() -> None:
    gpu = Pool("gpu", workers=1, resources=Amounts(gpus=1))
    fat = Pool("high_memory", workers=2, resources=Amounts(memory=128 * GB))
    workflow = a_workflow(gpu, fat)
    twice = Workflow(workflow.file, workflow.folder, stages=workflow.stages * 2, execution=workflow.execution)
    found = place(twice, LAPTOP, on_this_machine=True)
    assert found.warnings == (
        "pool 'gpu' asks for 1 GPU per worker; this machine has none: its stages run on the CPU",
        (
            "pool 'high_memory' asks for 128 GB of memory per worker; this machine has 16 GB: "
            "its tasks will use what is available"
        ),
    )
    assert {stage.verdict for stage in found.stages} == {Verdict.YES}
    assert found.problems == ()


def test_a_stage_that_asks_for_more_than_its_pool_states_is_named(tmp_path: Path) -> None:
    written = tmp_path / "flow.yaml"
    written.write_text(
        "data: {datasets: [{name: d, files: a.root}]}\n"
        "analysis:\n  stages:\n"
        "    - {id: Small, op: filter, params: {selection: 'x > 0'}}\n"
        "    - id: Large\n      op: filter\n      params: {selection: 'x > 0'}\n"
        "      execution: {resources: {memory: 5TB}}\n"
    )
    workflow = read_workflow(written).workflow
    assert workflow is not None
    told = "stage 'Large' asks for 5 TB of memory; this machine has 16 GB"
    [warning] = place(workflow, LAPTOP, on_this_machine=True).warnings
    assert warning.endswith(f"flow.yaml:8:30: {told}: its tasks will use what is available")
    [problem] = place(workflow, LAPTOP, on_this_machine=True, strict=True).problems
    assert problem.message == told
    assert str(problem.place).endswith("flow.yaml:8:30")


def test_strict_makes_missing_hardware_an_error() -> None:
    found = place(
        a_workflow(Pool("gpu", workers=1, resources=Amounts(gpus=1))), LAPTOP, on_this_machine=True, strict=True
    )
    assert found.warnings == ()
    assert [problem.kind for problem in found.problems] == [errors.NEVER_FITS]


def test_a_cluster_is_not_measured_by_this_machine() -> None:
    fat = Pool("fat", workers=50, resources=Amounts(cpus=64, memory=512 * GB, gpus=8))
    found = place(a_workflow(fat), LAPTOP, on_this_machine=False, strict=True)
    assert (found.warnings, found.problems, found.pool("fat").workers) == ((), (), 50)
    assert found.pool("fat").granted == Amounts(cpus=64, memory=512 * GB, gpus=8)


def test_a_pool_that_no_stage_uses_is_not_warned_of() -> None:
    workflow = a_workflow(Pool("default", workers=1))
    unused = Pool("gpu", workers=1, resources=Amounts(gpus=1))
    more = Workflow(
        workflow.file,
        workflow.folder,
        stages=workflow.stages,
        execution=Execution(pools=(*workflow.execution.pools, unused)),
    )
    assert place(more, LAPTOP, on_this_machine=True).warnings == ()


def test_workers_and_slots_are_capped_at_the_cpus() -> None:
    assert here(Pool("p", workers=20)).workers == 4
    assert here(Pool("p", workers=2)).workers == 2
    wide = here(Pool("p", workers=2, slots=8, resources=Amounts(cpus=8)))
    assert (wide.workers, wide.slots, wide.granted.cpus) == (1, 4, 4)


def test_a_pool_that_was_scaled_down_remembers_what_the_file_asks_for() -> None:
    assert here(Pool("p", workers=20, resources=Amounts(cpus=8))).asked_size == PoolSize(20, None, 8)
    assert here(Pool("p", workers=2)).scaled_from is None
    assert here(Pool("default")).scaled_from is None


def test_an_elastic_pool_is_capped_too() -> None:
    assert here(Pool("p", elastic=Elastic(min=6, max=20))).elastic == Elastic(min=4, max=4)


def test_a_pool_that_states_nothing_has_one_worker_per_core() -> None:
    assert (here(Pool("default")).workers, here(Pool("default")).slots) == (4, 1)
    assert here(Pool("default"), asks=Amounts(cpus=2)).workers == 2


def test_what_stages_ask_for_limits_how_many_run_at_once() -> None:
    pool = Pool("p", workers=4, resources=Amounts(cpus=4, memory=64 * GB))
    assert here(pool, asks=Amounts(memory=6 * GB)).most_slots == 2
    assert here(pool, asks=Amounts(cpus=2)).most_slots == 2


def test_gpus_of_the_machine_limit_the_workers() -> None:
    pool = Pool("gpu", workers=8, resources=Amounts(gpus=1))
    assert here(pool, machine=Machine(cpus=16, memory=64 * GB, gpus=2)).workers == 2


def test_workers_share_the_memory_of_the_machine() -> None:
    assert here(Pool("p", workers=4, resources=Amounts(memory=128 * GB))).granted.memory == 4 * GB
    assert here(Pool("p", workers=2, resources=Amounts(memory=2 * GB))).granted.memory == 2 * GB


def test_a_pool_with_its_own_batch_system_is_not_on_this_machine() -> None:
    far = Pool("far", workers=50, strategy="htcondor", resources=Amounts(gpus=1))
    found = place(a_workflow(far, backend="dask"), LAPTOP, on_this_machine=True)
    assert (found.pool("far").workers, found.warnings) == (50, ())


def test_dask_on_one_machine_keeps_small_pools_whole() -> None:
    two_cores = Machine(cpus=2, memory=16 * GB)
    assert here(Pool("p", workers=4), machine=two_cores, backend="dask").workers == 4
    assert here(Pool("p", workers=1, slots=4), machine=two_cores, backend="dask").slots == 4
    assert here(Pool("p", workers=500), machine=two_cores, backend="dask").workers == 8


@pytest.mark.parametrize("asks", [Amounts(), Amounts(cpus=64, memory=512 * GB, gpus=8, disk=1)])
def test_there_is_always_room_for_one_task(asks: Amounts) -> None:
    pool = Pool("p", workers=3, resources=Amounts(cpus=64, memory=512 * GB, gpus=8, disk=10**15))
    small = here(pool, machine=Machine(cpus=1, memory=GB, disk=GB), asks=asks)
    assert small.most_slots >= 1
    assert small.granted == Amounts(cpus=1, memory=GB // small.most_workers, gpus=0, disk=GB)
