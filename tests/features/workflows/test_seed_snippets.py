"""Test that every YAML snippet of the pages that Cenote grew from is accepted as written there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.language.execution import Amounts
from cenote.language.plugins import registry
from cenote.language.read import Checked, read_workflow
from cenote.language.workflow import Workflow

SNIPPETS = Path(__file__).parent / "seed_snippets"
WORKFLOWS = sorted((SNIPPETS / "workflows").glob("*.yaml"))
EXECUTIONS = sorted((SNIPPETS / "executions").glob("*.yaml"))
STAGES = sorted((SNIPPETS / "stages").glob("*.yaml"))
OWN_OPERATIONS = f"plugins=[{SNIPPETS / 'seed_operations.py'}]"
THREE_STAGES = SNIPPETS / "workflows" / "three_stages_on_three_pools.yaml"


@pytest.fixture(autouse=True)
def plugins_of_one_test_only() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


def name_of(path: Path) -> str:
    return path.stem


def accepted(checked: Checked) -> Workflow:
    assert not checked.problems, "\n".join(str(problem) for problem in checked.problems)
    assert checked.workflow is not None
    return checked.workflow


@pytest.mark.parametrize("file", WORKFLOWS, ids=name_of)
def test_a_workflow_of_the_pages_is_accepted(file: Path) -> None:
    workflow = accepted(read_workflow(file, sets=[OWN_OPERATIONS]))
    assert workflow.stages
    assert [pool.name for pool in workflow.execution.pools] == ["default"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
@pytest.mark.parametrize("execution", EXECUTIONS, ids=name_of)
def test_every_workflow_goes_with_every_infrastructure(workflow: Path, execution: Path) -> None:
    accepted(read_workflow(workflow, sets=[OWN_OPERATIONS], profiles=[str(execution)]))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=name_of)
def test_infrastructure_stands_in_the_workflow_just_as_well(execution: Path, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(THREE_STAGES.read_text() + execution.read_text())
    accepted(read_workflow(file, sets=[OWN_OPERATIONS]))


@pytest.mark.parametrize("snippet", STAGES, ids=name_of)
def test_what_a_stage_asks_for_is_accepted(snippet: Path, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    indented = "".join(f"      {line}\n" for line in snippet.read_text().splitlines())
    pools = "execution: {pools: {default: {}, high_memory: {}, gpu: {}, pool1: {}}}\n"
    file.write_text(f"{pools}analysis:\n  stages:\n    - id: Stage\n      op: custom.build_index\n{indented}")
    (stage,) = accepted(read_workflow(file, sets=[OWN_OPERATIONS])).stages
    asked = stage.requirement
    assert asked.labels or asked.modifiers or asked.pool == "pool1"


def test_the_typical_example_says_what_each_stage_needs_and_what_workers_exist() -> None:
    pools = SNIPPETS / "executions" / "three_pools_with_resources.yaml"
    workflow = accepted(read_workflow(THREE_STAGES, sets=[OWN_OPERATIONS], profiles=[str(pools)]))
    assert {stage.id: stage.requirement.labels for stage in workflow.stages} == {
        "BuildIndex": ("high_memory",),
        "RunInference": ("gpu",),
        "MuonPt": (),
    }
    assert {pool.name: (pool.workers, pool.resources) for pool in workflow.execution.pools} == {
        "default": (20, Amounts(cpus=1, memory=4 * 10**9)),
        "high_memory": (2, Amounts(cpus=8, memory=128 * 10**9)),
        "gpu": (1, Amounts(gpus=1, memory=16 * 10**9)),
    }


def test_a_walltime_is_never_read_as_a_number() -> None:
    pools = SNIPPETS / "executions" / "a_pool_with_a_walltime.yaml"
    (pool,) = accepted(read_workflow(THREE_STAGES, sets=[OWN_OPERATIONS], profiles=[str(pools)])).execution.pools
    assert pool.config == {"walltime": "04:00:00"}
