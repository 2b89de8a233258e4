"""What holds for every workflow, whatever its stages ask for and its pools are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.common.machine import Machine
from cenote.language.execution import Amounts, DefaultPools, Elastic, Pool
from cenote.language.workflow import Execution, Requirement, Stage, Workflow
from cenote.planning.placement.place import place
from cenote.planning.placement.pools import Placement, Verdict

calm = settings(deadline=None)
"""Without a time limit per example: a busy machine is not a bug."""
GB = 10**9
NAMES = ("default", "cheap", "gpu", "fat", "merge")
LABELS = ("gpu", "a100", "big", "nowhere")

amounts = st.builds(
    Amounts,
    cpus=st.sampled_from([None, 0.5, 1, 2, 8]),
    memory=st.sampled_from([None, GB, 4 * GB, 100 * GB]),
    gpus=st.sampled_from([None, None, 0, 1, 2]),
    disk=st.sampled_from([None, GB]),
)
elastic = st.builds(lambda fewest, more: Elastic(min=fewest, max=fewest + more), st.integers(0, 2), st.integers(0, 3))


@st.composite
def a_pool(draw: st.DrawFn, name: str) -> Pool:
    grows = draw(st.booleans())
    return Pool(
        name,
        workers=None if grows else draw(st.sampled_from([None, 0, 1, 5])),
        elastic=draw(elastic) if grows else None,
        slots=draw(st.sampled_from([None, 1, 4])),
        resources=draw(amounts),
        provides=tuple(draw(st.sets(st.sampled_from(LABELS[:3]), max_size=2))),
        queue_timeout=draw(st.sampled_from([None, None, 60])),
    )


@st.composite
def a_stage(draw: st.DrawFn, number: int) -> Stage:
    way = draw(st.sampled_from(["nothing", "require", "prefer", "pool"]))
    names = st.sampled_from([*NAMES, *LABELS])
    return Stage(
        f"s{number}",
        "op",
        requirement=Requirement(
            labels=tuple(draw(st.lists(names, min_size=1, max_size=2, unique=True))) if way == "require" else (),
            prefer=draw(names) if way == "prefer" else None,
            fallback=tuple(draw(st.lists(names, max_size=2, unique=True))) if way == "prefer" else (),
            pool=draw(st.sampled_from(NAMES)) if way == "pool" else None,
            amounts=draw(amounts),
        ),
    )


@st.composite
def a_workflow(draw: st.DrawFn) -> Workflow:
    """With defaults that exist: which pool is the default is not for other pools to change."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return Workflow(
        Path("flow.yaml"),
        Path(),
        stages=tuple(draw(a_stage(i)) for i in range(draw(st.integers(1, 4)))),
        execution=Execution(
            pools=tuple(draw(a_pool(name)) for name in names), defaults=DefaultPools(names[0], names[-1])
        ),
    )


machines = st.builds(
    Machine, cpus=st.integers(1, 8), memory=st.sampled_from([GB, 200 * GB]), gpus=st.integers(0, 2), disk=st.just(0)
)


def placed(workflow: Workflow, *, here: bool = False) -> Placement:
    return place(workflow, Machine(cpus=2, memory=8 * GB), on_this_machine=here)


def with_pools(workflow: Workflow, *pools: Pool) -> Workflow:
    return replace(workflow, execution=replace(workflow.execution, pools=pools))


def allowed_by_the_words(workflow: Workflow, stage: Stage) -> set[str]:
    """The rules of the language, said in another way than the code does."""
    asked, execution = stage.requirement, workflow.execution
    labels = {pool.name: pool.labels for pool in execution.pools}
    if asked.pool is not None:
        return {asked.pool} & labels.keys()
    if asked.prefer is not None:
        return {name for name in labels if labels[name] & {asked.prefer, *asked.fallback}}
    if asked.labels:
        return {name for name in labels if labels[name] >= set(asked.labels)}
    return {str(execution.defaults.gpu if asked.amounts.gpus else execution.defaults.cpu)}


@given(a_workflow(), st.booleans())
@calm
def test_a_stage_never_gets_a_pool_that_it_does_not_allow(workflow: Workflow, here: bool) -> None:
    found = placed(workflow, here=here)
    for stage in workflow.stages:
        assert set(found.by_stage[stage.id].pools) <= allowed_by_the_words(workflow, stage)


@given(a_workflow())
@calm
def test_one_slot_of_every_candidate_holds_what_the_stage_asks_for(workflow: Workflow) -> None:
    found = placed(workflow)
    for stage in workflow.stages:
        asked = stage.requirement.amounts
        for name in found.by_stage[stage.id].pools:
            pool = found.pool(name)
            assert (asked.cpus or 0) * pool.slots <= (pool.resources.cpus or 0) + 1e-6
            assert (asked.gpus or 0) * pool.slots <= (pool.resources.gpus or 0)
            assert pool.resources.memory is None or (asked.memory or 0) * pool.slots <= pool.resources.memory


@given(a_workflow())
@calm
def test_never_means_no_pool_a_reason_for_each_of_them_and_a_problem(workflow: Workflow) -> None:
    found = placed(workflow)
    for stage in found.stages:
        assert (stage.verdict is Verdict.NEVER) == (stage.pools == ())
        assert [candidate.pool for candidate in stage.considered] == [pool.name for pool in found.pools]
        assert all(candidate.reason for candidate in stage.considered)
        assert {c.pool for c in stage.considered if c.fits} == set(stage.pools)
    assert bool(found.problems) >= any(stage.verdict is Verdict.NEVER for stage in found.stages)
    assert bool(found.problems) <= any(stage.verdict is Verdict.NEVER for stage in found.stages)


@given(a_workflow(), st.data())
@calm
def test_adding_a_pool_never_takes_away_the_chance_to_run(workflow: Workflow, data: st.DataObject) -> None:
    free = [name for name in (*NAMES, "new") if name not in {pool.name for pool in workflow.execution.pools}]
    extra = data.draw(a_pool(data.draw(st.sampled_from(free))))
    before = placed(workflow)
    after = placed(with_pools(workflow, *workflow.execution.pools, extra))
    for stage in before.stages:
        if stage.verdict is not Verdict.NEVER:
            assert after.by_stage[stage.stage].verdict is not Verdict.NEVER
            assert set(stage.pools) <= set(after.by_stage[stage.stage].pools)


@given(a_workflow(), st.data())
@calm
def test_a_larger_worker_never_hurts(workflow: Workflow, data: st.DataObject) -> None:
    pool = data.draw(st.sampled_from(workflow.execution.pools))
    # A pool that states nothing takes any shape: stating something is not "larger".
    stated = {
        kind: value * data.draw(st.sampled_from([1, 2, 10]))
        for kind in ("cpus", "memory", "gpus", "disk")
        if (value := getattr(pool.resources, kind))
    }
    larger = replace(pool, resources=replace(pool.resources, **stated))
    before = placed(workflow)
    after = placed(with_pools(workflow, *(larger if p is pool else p for p in workflow.execution.pools)))
    for stage in before.stages:
        assert set(stage.pools) <= set(after.by_stage[stage.stage].pools)


@given(a_workflow(), st.data())
@calm
def test_the_order_of_pools_only_orders_those_that_share(workflow: Workflow, data: st.DataObject) -> None:
    shuffled = with_pools(workflow, *data.draw(st.permutations(workflow.execution.pools)))
    for one, other in zip(placed(workflow).stages, placed(shuffled).stages, strict=True):
        assert set(one.pools) == set(other.pools)
        assert (one.verdict, one.shared) == (other.verdict, other.shared)
        single = all(
            sum(name in pool.labels for pool in workflow.execution.pools) == 1
            for stage in workflow.stages
            if stage.id == one.stage
            for name in (stage.requirement.prefer, *stage.requirement.fallback)
        )
        if single and not one.shared:
            assert one.pools == other.pools


@given(a_workflow(), machines)
@calm
def test_strict_only_turns_warnings_about_this_machine_into_problems(workflow: Workflow, machine: Machine) -> None:
    loose = place(workflow, machine, on_this_machine=True)
    strict = place(workflow, machine, on_this_machine=True, strict=True)
    assert strict.stages == loose.stages
    assert strict.pools == loose.pools
    turned = [warning for warning in loose.warnings if warning not in strict.warnings]
    assert {problem.message for problem in strict.problems} == {
        *(warning.rpartition(": ")[0] for warning in turned),  # without how the run would make do
        *(problem.message for problem in loose.problems),
    }


@given(a_workflow(), machines)
@calm
def test_this_machine_changes_sizes_but_neither_routes_nor_verdicts(workflow: Workflow, machine: Machine) -> None:
    here = place(workflow, machine, on_this_machine=True)
    assert here.stages == place(workflow, machine, on_this_machine=False).stages
    for pool in here.pools:
        assert pool.slots >= 1
        assert pool.most_slots <= max(machine.cpus, 1)
        assert (pool.granted.cpus or 0) <= machine.cpus
        assert (pool.granted.gpus or 0) <= machine.gpus
        assert (pool.granted.memory or 0) * pool.most_workers <= machine.memory


@given(a_workflow())
@calm
def test_the_same_question_gets_the_same_answer(workflow: Workflow) -> None:
    assert placed(workflow) == placed(workflow)
