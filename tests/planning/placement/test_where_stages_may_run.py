"""Rules 1 to 3 of placement: which pools, in which order, and the verdict with its reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.counted_calls import calls_made
from cenote.common import errors
from cenote.common.machine import Machine
from cenote.language.execution import Amounts, DefaultPools, Elastic, Pool
from cenote.language.systematics import Origin
from cenote.language.workflow import Execution, Requirement, Stage, Workflow
from cenote.planning.placement.place import place
from cenote.planning.placement.pools import Candidate, Placement, Verdict

GB = 10**9
NOTHING = Amounts()
CLUSTER = Machine(cpus=4, memory=16 * GB)

DEFAULT = Pool("default", workers=10)
HIGH_MEMORY = Pool("high_memory", workers=2, resources=Amounts(cpus=8, memory=128 * GB))
GPU = Pool("gpu", workers=1, resources=Amounts(gpus=1, memory=16 * GB))


def a_workflow(*stages: Stage, pools: tuple[Pool, ...] = (DEFAULT, HIGH_MEMORY, GPU), **execution: Any) -> Workflow:
    return Workflow(file=Path("flow.yaml"), folder=Path(), stages=stages, execution=Execution(pools=pools, **execution))


def a_stage(name: str = "S", *, resources: Amounts = NOTHING, **asks: Any) -> Stage:
    return Stage(name, "custom.op", requirement=Requirement(amounts=resources, **asks))


def on_a_cluster(*stages: Stage, **rest: Any) -> Placement:
    return place(a_workflow(*stages, **rest), CLUSTER, on_this_machine=False)


def the_only_problem(placement: Placement) -> errors.Problem:
    assert len(placement.problems) == 1, placement.problems
    return placement.problems[0]


def test_the_three_pool_example_sends_every_stage_to_its_own_pool() -> None:
    found = on_a_cluster(
        a_stage("BuildIndex", labels=("high_memory",)), a_stage("RunInference", labels=("gpu",)), a_stage("MuonPt")
    )
    assert {stage.stage: stage.pools for stage in found.stages} == {
        "BuildIndex": ("high_memory",),
        "RunInference": ("gpu",),
        "MuonPt": ("default",),
    }
    assert {stage.verdict for stage in found.stages} == {Verdict.YES}
    assert found.problems == ()
    assert found.warnings == ()
    assert found.merge_pool == "default"
    assert found.by_stage["MuonPt"].reason == "names no pool: it takes the default CPU pool"


def test_pools_with_the_same_label_share_the_work_in_the_order_written() -> None:
    pools = (DEFAULT, Pool("b", workers=1, provides=("fast",)), Pool("a", workers=1, provides=("fast",)))
    (stage,) = on_a_cluster(a_stage(labels=("fast",)), pools=pools).stages
    assert (stage.pools, stage.shared) == (("b", "a"), True)


def test_a_pool_provides_its_resource_class_as_a_label() -> None:
    pools = (DEFAULT, Pool("fat", workers=1, resources=Amounts(memory=GB), resource_class="big"))
    assert on_a_cluster(a_stage(labels=("big",)), pools=pools).stages[0].pools == ("fat",)


def test_a_list_of_labels_asks_for_all_of_them() -> None:
    pools = (DEFAULT, Pool("a", workers=1, provides=("x",)), Pool("b", workers=1, provides=("x", "y")))
    assert on_a_cluster(a_stage(labels=("x", "y")), pools=pools).stages[0].pools == ("b",)


def test_prefer_and_fallback_give_an_order_over_pools_and_labels() -> None:
    pools = (DEFAULT, GPU, Pool("old_1", workers=1, provides=("old",)), Pool("old_2", workers=1, provides=("old",)))
    (stage,) = on_a_cluster(a_stage(prefer="gpu", fallback=("old", "default")), pools=pools).stages
    assert (stage.pools, stage.shared) == (("gpu", "old_1", "old_2", "default"), False)
    assert stage.reason == "prefers 'gpu', then 'old', 'default'"


def test_a_first_choice_that_is_too_small_is_left_out_of_the_order() -> None:
    stage = a_stage(prefer="gpu", fallback=("high_memory",), resources=Amounts(memory=40 * GB))
    (found,) = on_a_cluster(stage).stages
    assert found.pools == ("high_memory",)
    assert {c.pool: c.reason for c in found.considered}["gpu"] == (
        "has 16 GB of memory; the stage asks for 40 GB of memory"
    )


def test_pool_names_exactly_one_pool() -> None:
    pools = (DEFAULT, Pool("a", workers=1, provides=("b",)), Pool("b", workers=1))
    assert on_a_cluster(a_stage(pool="b"), pools=pools).stages[0].pools == ("b",)


def test_a_stage_that_names_nothing_takes_the_default_of_the_execution() -> None:
    found = on_a_cluster(a_stage(), defaults=DefaultPools(cpu="high_memory"))
    assert found.stages[0].pools == ("high_memory",)
    assert found.merge_pool == "high_memory"


def test_a_stage_that_names_nothing_takes_the_only_pool() -> None:
    assert on_a_cluster(a_stage(), pools=(Pool("mine", workers=1),)).stages[0].pools == ("mine",)


def test_a_stage_that_asks_for_gpus_takes_the_default_gpu_pool() -> None:
    a100 = Pool("a100", workers=1, resources=Amounts(gpus=2))
    stage = a_stage(resources=Amounts(gpus=1))
    assert on_a_cluster(stage).stages[0].pools == ("gpu",)
    assert on_a_cluster(stage, pools=(DEFAULT, GPU, a100), defaults=DefaultPools(gpu="a100")).stages[0].pools == (
        "a100",
    )


def test_a_stage_that_names_nothing_never_occupies_a_specialised_pool_even_where_it_would_fit() -> None:
    small = Pool("default", workers=10, resources=Amounts(cpus=1, memory=4 * GB))
    problem = the_only_problem(
        on_a_cluster(a_stage("Big", resources=Amounts(memory=100 * GB)), pools=(small, HIGH_MEMORY))
    )
    assert problem.kind is errors.NEVER_FITS
    assert problem.message == "no worker that stage 'Big' may use has 100 GB of memory for one task"
    assert problem.details == (
        "pool 'default' has 4 GB of memory; the stage asks for 100 GB of memory",
        "the largest is 'high_memory' with 128 GB of memory",
    )
    assert problem.hint == "write `require: high_memory`, which has enough"


def test_merges_run_on_the_pool_called_merge_if_there_is_one() -> None:
    assert on_a_cluster(a_stage(), pools=(DEFAULT, Pool("merge", workers=1))).merge_pool == "merge"


def test_without_a_default_merges_take_the_first_pool_with_workers_and_no_gpus() -> None:
    pools = (GPU, Pool("empty", workers=0), Pool("cpu", workers=1))
    found = on_a_cluster(a_stage(labels=("cpu",)), pools=pools)
    assert (found.merge_pool, found.problems) == ("cpu", ())


# Amounts and slots


def test_slots_divide_the_worker() -> None:
    shared_gpu = Pool("gpu", workers=1, slots=4, resources=Amounts(cpus=8, gpus=1))
    label_only = on_a_cluster(a_stage(labels=("gpu",)), pools=(shared_gpu,))
    assert label_only.stages[0].verdict is Verdict.YES

    whole_gpu = on_a_cluster(a_stage(labels=("gpu",), resources=Amounts(gpus=1)), pools=(shared_gpu,))
    problem = the_only_problem(whole_gpu)
    assert problem.details[0] == (
        "pool 'gpu' has 1 GPU for 4 slots, so 0.25 GPUs for one task; the stage asks for 1 GPU"
    )
    assert problem.hint == "write `slots: 1` for pool 'gpu', whose worker is large enough undivided"


@pytest.mark.parametrize(
    ("worker", "stages", "slots"),
    [
        (Amounts(), [Amounts()], 1),
        (Amounts(cpus=8, memory=128 * GB), [Amounts()], 8),
        (Amounts(cpus=8, memory=128 * GB), [Amounts(cpus=2)], 4),
        (Amounts(cpus=8, memory=128 * GB), [Amounts(cpus=2), Amounts(cpus=3)], 2),
        (Amounts(cpus=8, memory=128 * GB), [Amounts(memory=100 * GB), Amounts(memory=40 * GB)], 1),
        (Amounts(cpus=8, memory=128 * GB), [Amounts(memory=40 * GB)], 3),
        (Amounts(cpus=8, gpus=1), [Amounts()], 1),
        (Amounts(cpus=8, gpus=4), [Amounts(gpus=2)], 2),
        (Amounts(cpus=1), [Amounts(cpus=0.5)], 2),
    ],
)
def test_slots_that_nobody_wrote_follow_from_what_the_stages_ask_for(
    worker: Amounts, stages: list[Amounts], slots: int
) -> None:
    pool = Pool("p", workers=1, resources=worker)
    found = on_a_cluster(
        *(a_stage(str(i), pool="p", resources=amounts) for i, amounts in enumerate(stages)), pools=(pool,)
    )
    assert found.pool("p").slots == slots
    assert found.problems == ()


def test_a_stage_that_does_not_fit_does_not_decide_how_a_worker_is_divided() -> None:
    pool = Pool("p", workers=1, resources=Amounts(cpus=8, memory=16 * GB))
    found = on_a_cluster(
        a_stage("a", pool="p"), a_stage("b", pool="p", resources=Amounts(memory=99 * GB)), pools=(pool,)
    )
    assert found.pool("p").slots == 8


def test_what_a_pool_does_not_state_is_one_cpu_no_gpu_and_memory_on_trust() -> None:
    found = on_a_cluster(
        a_stage("memory", resources=Amounts(memory=40 * GB)),
        a_stage("cpus", resources=Amounts(cpus=2)),
        a_stage("gpus", pool="default", resources=Amounts(gpus=1)),
        pools=(DEFAULT,),
    )
    assert [stage.verdict for stage in found.stages] == [Verdict.YES, Verdict.NEVER, Verdict.NEVER]
    assert found.stages[0].considered[0].reason == (
        "is the default CPU pool; it does not declare its own, so 40 GB of memory is assumed"
    )
    assert found.pool("default").resources == Amounts(cpus=1, gpus=0)


def test_a_pool_that_states_nothing_takes_the_shape_that_its_stages_ask_for() -> None:
    stage = a_stage(resources=Amounts(cpus=2, memory=4 * GB, gpus=1))
    found = on_a_cluster(stage, pools=(Pool("default"),))
    assert found.stages[0].verdict is Verdict.YES
    assert found.pool("default").resources == Amounts(cpus=2, memory=4 * GB, gpus=1)
    assert found.pool("default").workers == 1


# Not now


def test_an_elastic_pool_that_starts_at_zero_is_not_now() -> None:
    pools = (DEFAULT, Pool("gpu", elastic=Elastic(min=0, max=5), resources=Amounts(gpus=1)))
    (stage,) = on_a_cluster(a_stage(labels=("gpu",)), pools=pools).stages
    assert (stage.verdict, stage.pools) == (Verdict.NOT_NOW, ("gpu",))
    assert stage.reason == "requires 'gpu'; gpu starts without workers and grows when tasks wait"


def test_an_elastic_pool_with_a_fallback_that_has_workers_is_yes() -> None:
    pools = (DEFAULT, Pool("gpu", elastic=Elastic(min=0, max=5), resources=Amounts(gpus=1)))
    (stage,) = on_a_cluster(a_stage(prefer="gpu", fallback=("default",)), pools=pools).stages
    assert (stage.verdict, stage.pools) == (Verdict.YES, ("gpu", "default"))


def test_a_pool_without_workers_is_not_now_when_the_author_says_how_long_to_wait() -> None:
    pools = (DEFAULT, Pool("gpu", workers=0, queue_timeout=60))
    (stage,) = on_a_cluster(a_stage(labels=("gpu",)), pools=pools).stages
    assert stage.verdict is Verdict.NOT_NOW
    assert stage.reason == "requires 'gpu'; gpu has no workers: tasks wait there until their timeout"


# Never


def test_a_pool_that_never_has_a_worker_is_never() -> None:
    problem = the_only_problem(on_a_cluster(a_stage("S", labels=("gpu",)), pools=(DEFAULT, Pool("gpu", workers=0))))
    assert problem.kind is errors.NEVER_FITS
    assert problem.message == "stage 'S' can only run in pool 'gpu', which never has a worker"
    assert problem.hint == "give pool 'gpu' workers, or `elastic: {min: 0, max: 4}`"


def test_a_preferred_pool_without_workers_is_passed_over_with_a_warning() -> None:
    found = on_a_cluster(a_stage("S", prefer="gpu", fallback=("default",)), pools=(DEFAULT, Pool("gpu", workers=0)))
    assert found.stages[0].pools == ("default",)
    assert found.warnings == (
        "stage 'S' prefers 'gpu', then 'default'; pool 'gpu' will never have a worker, so it runs on 'default'",
    )
    assert found.stages[0].passed_over == Candidate("gpu", False, "will never have a worker: its `workers` is 0")


@pytest.mark.parametrize("asks", [{"prefer": "gpu"}, {"fallback": ("gpu",)}, {"prefer": "default"}, {"pool": "gpu"}])
def test_nothing_is_passed_over_where_a_stage_gets_what_it_prefers(asks: dict[str, Any]) -> None:
    found = on_a_cluster(a_stage("S", **asks), pools=(DEFAULT, GPU))
    assert found.stages[0].pools
    assert found.stages[0].passed_over is None


def test_a_label_that_no_pool_provides_names_the_pools_and_the_nearest_label() -> None:
    path = ("analysis", "stages", 0, "execution")
    origin = Origin("flow.yaml", errors.Place("flow.yaml", 14, 16))
    stage = Stage("RunInference", "custom.op", requirement=Requirement(labels=("gpus",), path=path))
    workflow = Workflow(
        file=Path("flow.yaml"),
        folder=Path(),
        stages=(stage,),
        execution=Execution(pools=(DEFAULT, HIGH_MEMORY, GPU)),
        origins={(*path, "require"): origin},
    )
    assert str(the_only_problem(place(workflow, CLUSTER, on_this_machine=False))) == (
        "flow.yaml:14:16: no pool provides 'gpus', which stage 'RunInference' requires\n"
        "  pools in this file: default, gpu, high_memory\n"
        "  hint: did you mean 'gpu'?"
    )


@pytest.mark.parametrize("asks", [{"prefer": "gpuu"}, {"prefer": "gpu", "fallback": ("defaults",)}, {"pool": "gpu2"}])
def test_a_name_that_nothing_answers_to_is_an_error_wherever_it_stands(asks: dict[str, Any]) -> None:
    found = on_a_cluster(a_stage("S", **asks))
    assert the_only_problem(found).kind is errors.UNKNOWN_POOL
    assert "did you mean" in str(the_only_problem(found).hint)
    assert found.stages[0].verdict is Verdict.NEVER


def test_a_label_where_the_name_of_a_pool_belongs_is_explained() -> None:
    pools = (DEFAULT, Pool("gpu", workers=1, provides=("a100",)))
    assert the_only_problem(on_a_cluster(a_stage(pool="a100"), pools=pools)).hint == (
        "'a100' is a label: write `require: a100`"
    )


def test_labels_that_no_pool_provides_together_say_what_each_pool_lacks() -> None:
    problem = the_only_problem(on_a_cluster(a_stage(labels=("gpu", "high_memory"))))
    assert problem.details == ("pool 'high_memory' lacks gpu", "pool 'gpu' lacks high_memory")


def test_a_pool_that_lacks_the_label_also_required_is_refused() -> None:
    found = on_a_cluster(a_stage(pool="default", labels=("gpu",)))
    assert the_only_problem(found).details == ("pool 'default' lacks gpu",)


def test_a_fallback_that_require_forbids_is_an_error_instead_of_silence() -> None:
    problem = the_only_problem(on_a_cluster(a_stage("S", labels=("gpu",), fallback=("default",))))
    assert problem.message == "stage 'S' can never fall back to 'default': `require: gpu` allows no other pool"
    assert problem.hint == "write `prefer: gpu` instead of `require: gpu`"


def test_without_a_default_pool_the_error_says_what_to_write_once() -> None:
    problem = the_only_problem(on_a_cluster(a_stage("a"), a_stage("b"), pools=(HIGH_MEMORY, GPU)))
    assert problem.message == "stage 'a' (and 1 more) names no pool, and no pool is marked as the default CPU pool"
    assert problem.hint == ("write `execution: {defaults: {cpu: high_memory}}`, or call one of the pools `default`")


def test_gpus_asked_for_where_no_pool_has_any() -> None:
    problem = the_only_problem(on_a_cluster(a_stage("S", resources=Amounts(gpus=1)), pools=(DEFAULT, HIGH_MEMORY)))
    assert (problem.kind, problem.message) == (errors.NEVER_FITS, "stage 'S' asks for 1 GPU, and no pool has any")


def test_two_gpu_pools_and_no_default_ask_for_one() -> None:
    pools = (
        DEFAULT,
        Pool("v100", workers=1, resources=Amounts(gpus=1)),
        Pool("a100", workers=1, resources=Amounts(gpus=1)),
    )
    problem = the_only_problem(on_a_cluster(a_stage("S", resources=Amounts(gpus=1)), pools=pools))
    assert problem.hint == "write `execution: {defaults: {gpu: v100}}`"


def test_defaults_and_fallbacks_of_pools_that_do_not_exist_are_errors() -> None:
    pools = (DEFAULT, Pool("gpu", workers=1, fallback=("gpu_on_demnd",)), Pool("gpu_on_demand", workers=1))
    found = on_a_cluster(a_stage("S"), pools=pools, defaults=DefaultPools("defualt", "gup"))
    assert [problem.message for problem in found.problems] == [
        "there is no pool 'defualt', the default CPU pool",
        "there is no pool 'gup', the default GPU pool",
        "there is no pool 'gpu_on_demnd', to which pool 'gpu' falls back",
    ]


def test_all_problems_of_all_stages_come_at_once() -> None:
    found = on_a_cluster(a_stage("a", labels=("x",)), a_stage("b", pool="y"), a_stage("c", labels=("x", "z")))
    assert len(found.problems) == 4


def test_the_work_of_placing_grows_with_the_stages_and_no_faster() -> None:
    pools = tuple(
        Pool(f"p{i}", workers=1, resources=Amounts(cpus=8, memory=(i + 1) * GB), provides=("x",)) for i in range(50)
    )

    def of(count: int) -> Workflow:
        stages = [a_stage(f"s{i}", labels=("x",), resources=Amounts(memory=i % 60 * GB)) for i in range(count)]
        return a_workflow(*stages, pools=pools)

    few, many = of(500), of(5000)
    assert len(place(many, CLUSTER, on_this_machine=False).problems) == sum(1 for i in range(5000) if i % 60 > 50)
    calls = [calls_made(lambda given=given: place(given, CLUSTER, on_this_machine=False)) for given in (few, many)]
    assert calls[1] < 12 * calls[0]
    assert calls[1] < 200 * 5000  # a call or two for each pool that a stage might use
