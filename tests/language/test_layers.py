"""Test how a workflow is put together: includes, profiles, the file itself, the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.common import errors
from cenote.language.read import Checked
from cenote.language.systematics import Origin
from cenote.language.workflow import Workflow

Read = Callable[..., Checked]
Write = Callable[[str, str], Path]
Load = Callable[..., Workflow]

NOTHING_TO_DO = "analysis: {stages: []}\n"


def pool_workers(workflow: Workflow, name: str = "p") -> int | None:
    return next(pool.workers for pool in workflow.execution.pools if pool.name == name)


def test_later_layers_win(write: Write, workflow: Load) -> None:
    write("first.yaml", "execution: {pools: {p: {workers: 1, slots: 1, cost: 1, queue_timeout: 1s}}}")
    write("second.yaml", "execution: {pools: {p: {workers: 2, slots: 2, cost: 2}}}")
    text = (
        "use: {profiles: [first.yaml, second.yaml]}\nexecution: {pools: {p: {workers: 3, slots: 3}}}\n" + NOTHING_TO_DO
    )
    (pool,) = workflow(text, sets=["execution.pools.p.workers=4"]).execution.pools
    assert (pool.workers, pool.slots, pool.cost, pool.queue_timeout) == (4, 3, 2, 1)


def test_profiles_of_execution_work_too(write: Write, workflow: Load) -> None:
    write("site.yaml", "execution: {backend: dask, pools: {p: {workers: 7}}}")
    loaded = workflow("execution: {profiles: [site.yaml]}\n" + NOTHING_TO_DO)
    assert loaded.execution.backend == "dask"
    assert pool_workers(loaded) == 7


def test_a_profile_of_the_command_line_wins_over_the_file(write: Write, workflow: Load) -> None:
    write("site.yaml", "execution: {pools: {p: {workers: 7}}}")
    text = "execution: {pools: {p: {workers: 1}}}\n" + NOTHING_TO_DO
    assert pool_workers(workflow(text, profiles=["site.yaml"])) == 7


def test_backend_and_strategy_of_the_command_line_win(workflow: Load) -> None:
    text = "execution: {backend: dask, strategy: slurm}\n" + NOTHING_TO_DO
    loaded = workflow(text, backend="local", strategy="local")
    assert (loaded.execution.backend, loaded.execution.strategy) == ("local", "local")
    assert loaded.origin("execution", "backend") == Origin("command line", None)


def test_every_value_knows_its_layer(write: Write, workflow: Load) -> None:
    write("site.yaml", "execution:\n  pools:\n    p: {slots: 2}\n")
    text = "use: {profiles: [site.yaml]}\nexecution:\n  pools:\n    p: {use: gpu_worker, cost: 1}\n" + NOTHING_TO_DO
    loaded = workflow(text, sets=["execution.pools.p.workers=4"])
    at = ("execution", "pools", "p")
    layers = {key: loaded.origin(*at, key) for key in ("slots", "cost", "workers", "resources")}
    assert {key: origin.layer for key, origin in layers.items() if origin} == {
        "slots": "profile site.yaml",
        "cost": "flow.yaml",
        "workers": "command line",
        "resources": "built-in",
    }
    assert str(loaded.place(*at, "slots")) == "site.yaml:3:16"


@pytest.mark.parametrize("folder_of_profile", ["profiles", ".cenote/profiles", "home/.config/cenote/profiles", "else"])
def test_named_profiles_are_found_in_their_folders(
    write: Write, workflow: Load, monkeypatch: pytest.MonkeyPatch, folder_of_profile: str
) -> None:
    monkeypatch.setenv("CENOTE_PROFILES", "nowhere:else")
    write(f"{folder_of_profile}/site.yaml", "execution: {pools: {p: {workers: 7}}}")
    assert pool_workers(workflow("use: {profiles: site}\n" + NOTHING_TO_DO)) == 7


def test_profiles_of_fast_hep_are_built_in(workflow: Load) -> None:
    names = "registry, basic, hep, hep_debug, 'fasthep_distributed:dask_local', 'fasthep_curator:resource_usage'"
    assert workflow(f"use: {{profiles: [{names}]}}\n" + NOTHING_TO_DO).stages == ()


def test_a_profile_of_an_installed_package_is_found_without_importing_it(
    write: Write, workflow: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lib/experiment_tools/__init__.py", "raise RuntimeError('imported')")
    write("lib/experiment_tools/profiles/grid.yaml", "execution: {pools: {p: {workers: 9}}}")
    monkeypatch.syspath_prepend("lib")
    assert pool_workers(workflow("use: {profiles: ['experiment_tools:grid']}\n" + NOTHING_TO_DO)) == 9


def test_profiles_may_build_on_profiles(write: Write, workflow: Load) -> None:
    write("profiles/country.yaml", "execution: {pools: {p: {workers: 1, slots: 5}}}")
    write("profiles/site.yaml", "use: {profiles: [country]}\nexecution: {pools: {p: {workers: 2}}}")
    (pool,) = workflow("use: {profiles: [site]}\n" + NOTHING_TO_DO).execution.pools
    assert (pool.workers, pool.slots) == (2, 5)


def test_profiles_in_a_circle_are_an_error(write: Write, read: Read) -> None:
    write("a.yaml", "use: {profiles: [b.yaml]}")
    write("b.yaml", "use: {profiles: [a.yaml]}")
    (problem,) = read("use: {profiles: [a.yaml]}\n" + NOTHING_TO_DO).problems
    assert problem.kind is errors.INCLUDE_CYCLE
    assert "a.yaml → b.yaml → a.yaml" in problem.message


def test_an_unknown_profile_names_those_that_are_there(write: Write, read: Read) -> None:
    write("profiles/lxplus.yaml", "{}")
    (problem,) = read("use: {profiles: [lxpluss]}\n" + NOTHING_TO_DO).problems
    assert problem.kind is errors.UNKNOWN_PROFILE
    assert str(problem.place) == "flow.yaml:1:18"
    assert problem.hint == "did you mean 'lxplus'?"


@pytest.mark.parametrize("name", ["site.yaml", "'nobody_has_this:site'"])
def test_a_profile_that_is_not_there_is_reported_where_it_is_named(read: Read, name: str) -> None:
    (problem,) = read(f"use: {{profiles: [{name}]}}\n" + NOTHING_TO_DO).problems
    assert problem.kind in (errors.MISSING_FILE, errors.UNKNOWN_PROFILE)
    assert str(problem.place) == "flow.yaml:1:18"


def test_a_wrong_key_in_a_profile_is_reported_there(write: Write, read: Read) -> None:
    write("site.yaml", "execution:\n  pools:\n    p: {wrokers: 2}\n")
    (problem,) = read("use: {profiles: [site.yaml]}\n" + NOTHING_TO_DO).problems
    assert str(problem).startswith("site.yaml:3:9: there is no key 'wrokers'")


def test_includes_merge_deep_and_lists_concatenate_included_first(write: Write, workflow: Load) -> None:
    write("common/data.yaml", "data: {datasets: [{name: a, files: a.root}], defaults: {eventtype: data}}")
    write("common/all.yaml", "include: data.yaml\nanalysis: {globals: {x: 1, y: 1}, stages: []}")
    text = """
        include: [common/all.yaml]
        data: {datasets: [{name: b, files: b.root, eventtype: mc}]}
        analysis: {globals: {y: 2}}
    """
    loaded = workflow(text)
    assert [(d.name, d.eventtype) for d in loaded.datasets] == [("a", "data"), ("b", "mc")]
    assert loaded.constants == {"x": 1, "y": 2}
    assert str(loaded.place("data", "datasets", 0)).startswith("common/data.yaml:1:")


def test_includes_in_a_circle_show_the_circle(write: Write, read: Read) -> None:
    write("a.yaml", "include: b.yaml")
    write("b.yaml", "include: flow.yaml")
    (problem,) = read("include: a.yaml\n" + NOTHING_TO_DO).problems
    assert problem.kind is errors.INCLUDE_CYCLE
    assert str(problem) == "b.yaml:1:10: files include each other in a circle: flow.yaml → a.yaml → b.yaml → flow.yaml"


@pytest.mark.parametrize("naming", ["include: accounts", "use: {profiles: [./accounts]}"])
def test_what_another_file_holds_is_not_shown_where_that_is_no_workflow(write: Write, read: Read, naming: str) -> None:
    write("accounts", "root:$6$secret:20228:0:99999:7:::\ndaemon:*:20228:0:99999:7:::\n")
    (problem,) = read(f"{naming}\n" + NOTHING_TO_DO).problems
    assert problem.kind is errors.BAD_YAML
    assert str(problem.place).startswith("flow.yaml:1:")
    assert problem.message == "accounts holds no part of a workflow: none of its keys is one"


def test_what_another_file_holds_is_not_shown_where_that_is_no_catalogue(write: Write, read: Read) -> None:
    accounts = write("accounts", "root:$6$secret:20228:0:99999:7:::\ndaemon:*:20228:0:99999:7:::\n")
    (problem,) = read("data: {catalogue: accounts}\n" + NOTHING_TO_DO).problems
    assert problem.kind is errors.BAD_YAML
    assert str(problem.place).startswith("flow.yaml:1:")
    assert problem.message == f"{accounts} holds no datasets: none of its names has files"


def test_a_missing_include_does_not_hide_other_problems(read: Read) -> None:
    checked = read("include: nothing.yaml\nanalyis: {}\n" + NOTHING_TO_DO)
    assert [(p.kind, str(p.place)) for p in checked.problems] == [
        (errors.MISSING_FILE, "flow.yaml:1:10"),
        (errors.UNKNOWN_KEY, "flow.yaml:2:1"),
    ]


@pytest.mark.parametrize("text", ["include: 5", "include: [{a: b}]", "use: {profiles: [[a]]}"])
def test_names_of_files_must_be_text(read: Read, text: str) -> None:
    assert [p.kind for p in read(f"{text}\n" + NOTHING_TO_DO).problems] == [errors.BAD_VALUE]


POOLS = """
    pool_profiles:
      small: {workers: 2, resources: {memory: 4GB, cpus: 1}}
      large: {use: small, resources: {memory: 64GB}, provides: [large]}
    execution:
      pools:
        p: {use: %s, slots: 3}
    analysis: {stages: []}
"""


def test_a_pool_is_filled_in_from_its_profile(workflow: Load) -> None:
    (pool,) = workflow(POOLS % "large").execution.pools
    assert (pool.workers, pool.slots, pool.provides) == (2, 3, ("large",))
    assert (pool.resources.memory, pool.resources.cpus) == (64_000_000_000, 1)


def test_the_pool_profiles_of_the_documentation_are_built_in(workflow: Load) -> None:
    text = "execution: {pools: {default: {use: standard_worker}, gpu: {use: gpu_worker}}}\n" + NOTHING_TO_DO
    default, gpu = workflow(text).execution.pools
    assert default.resources.gpus is None
    assert gpu.resources.gpus == 1


def test_an_unknown_pool_profile_names_the_nearest(read: Read) -> None:
    (problem,) = read(POOLS % "lrage").problems
    assert problem.kind is errors.UNKNOWN_PROFILE
    assert problem.hint == "did you mean 'large'?"
    assert "gpu_worker" in problem.details[0]


def test_pool_profiles_in_a_circle_show_the_circle(read: Read) -> None:
    text = "pool_profiles: {a: {use: b}, b: {use: a}}\nexecution: {pools: {p: {use: a}}}\n" + NOTHING_TO_DO
    (problem,) = read(text).problems
    assert problem.kind is errors.INCLUDE_CYCLE
    assert "a → b → a" in problem.message


STAGES = """
    plugins: own_operations.py
    data: {datasets: [{name: top, files: a.root}]}
    analysis:
      stages:
        - {id: first, op: custom.scale, params: {factor: 2}}
        - {id: second, op: custom.scale}
"""


def test_set_reaches_items_of_lists_by_name_and_by_number(workflow: Load) -> None:
    sets = [
        "analysis.stages.second.params.factor=3.5",
        "analysis.stages.0.params.columns=[a, b]",
        "data.datasets.top.nevents=100",
        "analysis.globals.lumi=12",
        'analysis.globals."with.dot"=1',
    ]
    loaded = workflow(STAGES, sets=sets)
    assert loaded.stages[1].params == {"factor": 3.5}
    assert loaded.stages[0].params == {"factor": 2, "columns": ["a", "b"]}
    assert loaded.datasets[0].nevents == 100
    assert loaded.constants == {"lumi": 12, "with.dot": 1}


def test_set_merges_mappings_key_by_key(workflow: Load) -> None:
    loaded = workflow(STAGES, sets=["analysis.stages.first.params={columns: [c]}"])
    assert loaded.stages[0].params == {"factor": 2, "columns": ["c"]}


def test_set_of_profiles_is_heeded(write: Write, workflow: Load) -> None:
    write("site.yaml", "execution: {pools: {p: {workers: 7}}}")
    assert pool_workers(workflow(NOTHING_TO_DO, sets=["use.profiles=[site.yaml]"])) == 7


def test_setting_workers_takes_elastic_away(workflow: Load) -> None:
    text = "execution: {pools: {p: {elastic: {max: 5}}}}\n" + NOTHING_TO_DO
    (pool,) = workflow(text, sets=["execution.pools.p.workers=2"]).execution.pools
    assert (pool.workers, pool.elastic) == (2, None)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("execution.backend", "this is not KEY=VALUE"),
        ("=5", "this is not KEY=VALUE"),
        ("analysis.globals.x=[1", "the value is not YAML"),
        ("analysis.stages.secnd.params.x=1", "there is no 'secnd' in analysis.stages"),
        ("analysis.stages.7.params.x=1", "there is no '7' in analysis.stages"),
        ("analysis.stages.0.op.x=1", "'analysis.stages.0.op' holds a single value"),
    ],
)
def test_a_set_that_cannot_be_carried_out_is_a_problem(read: Read, assignment: str, words: str) -> None:
    (problem,) = read(STAGES, sets=[assignment]).problems
    assert problem.kind is errors.USAGE
    assert words in problem.message


def test_an_unknown_key_of_the_command_line_says_where_it_came_from(read: Read) -> None:
    (problem,) = read(STAGES, sets=["execution.bakcend=dask"]).problems
    assert problem.message == "command line: there is no key 'bakcend' in 'execution'"
    assert problem.hint == "did you mean 'backend'?"
