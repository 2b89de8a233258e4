"""Test the Workflow that correct files give: what follows what, what is filled in, what is resolved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cenote.language.execution import (
    Amounts,
    DefaultPools,
    Elastic,
    FallbackWhen,
    Pool,
    PoolSettings,
    RunLimits,
    settings_of,
)
from cenote.language.read import Checked
from cenote.language.workflow import AppliesTo, PluginUse, Requirement, Workflow

Load = Callable[..., Workflow]
Read = Callable[..., Checked]


def stages(*lines: str) -> str:
    written = "".join(f"    - {{op: custom.scale, {line}}}\n" for line in lines)
    return f"plugins: [own_operations.py]\nanalysis:\n  stages:\n{written}"


def needs(workflow: Workflow) -> dict[str, tuple[str, ...]]:
    return {stage.id: stage.needs for stage in workflow.stages}


def test_a_stage_follows_the_one_before(workflow: Load) -> None:
    assert needs(workflow(stages("id: a", "id: b", "id: c"))) == {"a": (), "b": ("a",), "c": ("b",)}


def test_needs_replace_the_order_of_the_list(workflow: Load) -> None:
    loaded = workflow(stages("id: a", "id: b, needs: []", "id: c, needs: a", "id: d, needs: [c, b, c]"))
    assert needs(loaded) == {"a": (), "b": (), "c": ("a",), "d": ("c", "b")}


def test_needs_may_name_stages_that_come_later(workflow: Load) -> None:
    assert needs(workflow(stages("id: a, needs: b", "id: b, needs: []"))) == {"a": ("b",), "b": ()}


def test_numbers_may_stand_in_quotes_where_a_number_is_meant(workflow: Load) -> None:
    written = 'datasets: [{name: mc, files: a.root, nevents: "469384"}]\n'
    written += 'execution: {pools: {p: {workers: "2", cost: "1.5"}}}\n'
    loaded = workflow(written)
    assert loaded.datasets[0].nevents == 469384
    assert loaded.execution.pools[0].workers == 2
    assert loaded.execution.pools[0].cost == 1.5


def test_the_version_is_the_authors_own_and_data_needs_no_analysis(workflow: Load) -> None:
    loaded = workflow("version: 4.0\ndatasets: {mc: a.root}\n")
    assert (loaded.version, loaded.stages) == ("4.0", ())


def test_the_settings_of_dask_that_fast_hep_has_are_those_of_the_default_pool(workflow: Load) -> None:
    config = "{n_workers: 3, threads_per_worker: 2, memory_limit: 4GB, local_directory: /scratch}"
    execution = workflow(f"datasets: {{mc: a.root}}\nexecution: {{backend: dask, config: {config}}}\n").execution
    (pool,) = execution.pools
    assert (pool.name, pool.workers, pool.slots) == ("default", 3, 2)
    assert pool.resources.memory == 4_000_000_000
    assert execution.config == {"scratch": "/scratch"}


def test_where_results_are_kept(workflow: Load) -> None:
    def store(written: str) -> tuple[str | None, int]:
        found = workflow(f"datasets: {{mc: a.root}}\nexecution: {{store: {written}}}\n").execution.store
        return found.path, found.limit

    assert store("") == (None, 20_000_000_000)
    assert store("/group/store") == ("/group/store", 20_000_000_000)
    assert store("s3://bucket/store") == ("s3://bucket/store", 20_000_000_000)
    assert store("{path: ~/results, limit: 1GB}") == ("~/results", 1_000_000_000)
    assert store("run") == ("run", 20_000_000_000)


@pytest.mark.parametrize(
    "wrong", ["here", "/a/../b", "s3://", "s3://a/../b", "file:///a", "[]", "{path: 3}", "{size: 3GB}"]
)
def test_a_store_is_an_absolute_folder_or_an_address(read: Callable[..., Checked], wrong: str) -> None:
    problems = read(f"execution: {{store: {wrong}}}\nanalysis: {{stages: []}}").problems
    assert [problem.place.line for problem in problems if problem.place is not None] == [1]


def test_constants_of_a_registry_are_globals(workflow: Load) -> None:
    written = "datasets: {mc: a.root}\nregistry: {constants: {lumi: 59.8}, functions: {sqrt: 'numpy:sqrt'}}\n"
    assert workflow(written).constants == {"lumi": 59.8}


def test_from_names_the_input(workflow: Load) -> None:
    lines = [
        "id: a",
        "id: b",
        "id: c, from: a",
        "id: d, in: a",
        "id: e, from: [{node: a, as: x}, b]",
        "id: f, from: events",
    ]
    loaded = workflow(stages(*lines))
    assert needs(loaded) == {"a": (), "b": ("a",), "c": ("a",), "d": ("a",), "e": ("a", "b"), "f": ()}
    assert [stage.source for stage in loaded.stages] == [None] * 5 + ["events"]


def test_the_primary_stream_is_where_stages_start(workflow: Load) -> None:
    text = "sources: {x: {tree: t}, y: {tree: t}}\nprimary_stream: y\n" + stages("id: a", "id: b", "id: c, from: x")
    assert [stage.source for stage in workflow(text).stages] == ["y", None, "x"]


def test_a_stage_that_only_draws_hangs_on_the_stage_it_draws(workflow: Load) -> None:
    text = "styles: {dark: {figure: {dpi: 80}}}\n" + stages("id: a", "id: b")
    text += (
        "    - {id: plot, op: hep.render.hist1d, from: [{node: a, port: hist}], params: {style: dark}, out: a.png}\n"
    )
    text += "    - {id: more, op: custom.scale}\n"
    text += "    - {id: late, op: custom.scale, needs: plot}\n"
    loaded = workflow(text)
    assert needs(loaded) == {"a": (), "b": ("a",), "more": ("b",), "late": ("a",)}
    (render,) = loaded.stages[0].render
    assert (render.name, render.out, render.settings) == ("hep.render.hist1d", "a.png", {"figure": {"dpi": 80}})


def test_without_pools_there_is_one_called_default(workflow: Load) -> None:
    loaded = workflow("analysis: {stages: []}")
    assert loaded.execution.pools == (Pool("default"),)
    assert (loaded.execution.backend, loaded.execution.strategy) == ("local", "local")


def test_without_sources_there_is_one_called_events(workflow: Load) -> None:
    (source,) = workflow("data: {defaults: {tree_primary: Events}}\nanalysis: {stages: []}").sources
    assert (source.id, source.kind, source.settings) == ("events", "root_tree", {"tree": "Events"})


def test_every_key_of_a_pool_arrives(workflow: Load) -> None:
    loaded = workflow(
        """
        execution:
          resources: {big: {cpus: 8, memory: 128GB}}
          defaults: {cpu: cheap, gpu: v100}
          pools:
            cheap: {workers: 3}
            v100:
              elastic: {min: 0, max: 20, idle_slots: 1, idle_time: 5m, resize_period: 30s, resize_factor: 0.5}
              slots: 4
              resources: big
              provides: gpu
              strategy: htcondor
              fallback: [cheap]
              fallback_when: {no_worker_for: 10m, preempted: 2, oom: true}
              queue_timeout: 2h
              environment: packed-pixi
              credentials: [x509, {type: scitokens, path: token}]
              pass_variables: [CALIBRATION, ANALYSIS_*]
              cost: 1.20
              config: {walltime: 04:00:00, partition: gpu}
        analysis: {stages: []}
        """
    )
    assert loaded.execution.defaults == DefaultPools(cpu="cheap", gpu="v100")
    cheap, pool = loaded.execution.pools
    assert cheap == Pool("cheap", workers=3)
    untouched = [key for key, value in settings_of(Pool("v100"), PoolSettings).items() if getattr(pool, key) == value]
    assert untouched == ["workers"]  # a pool has `workers` or `elastic`
    assert pool.elastic == Elastic(min=0, max=20, idle_slots=1, idle_time=300, resize_period=30, resize_factor=0.5)
    assert (pool.resources, pool.resource_class) == (Amounts(cpus=8, memory=128 * 10**9), "big")
    assert pool.fallback_when == FallbackWhen(no_worker_for=600, preempted=2, oom=True)
    assert pool.environment == {"type": "packed-pixi"}
    assert pool.credentials == ({"type": "x509"}, {"type": "scitokens", "path": "token"})
    assert pool.labels == {"v100", "big", "gpu"}


def test_limits_that_a_file_does_not_name_keep_their_defaults(workflow: Load) -> None:
    text = "execution: {limits: {lost: 0, no_worker_for: 10m}}\nanalysis: {stages: []}"
    assert workflow(text).execution.limits == RunLimits(lost=0, no_worker_for=600)
    assert workflow("analysis: {stages: []}").execution.limits == RunLimits()
    assert RunLimits() == RunLimits(lost=3, crashed=1, preempted=20, walltime=4, splits=16, pool=3, no_worker_for=60)


@pytest.mark.parametrize("wrong", ["lost: -1", "splits: 0", "pool: 0", "no_worker_for: soon", "losts: 1"])
def test_a_wrong_limit_is_refused_where_it_stands(read: Read, wrong: str) -> None:
    problems = read(f"execution: {{limits: {{{wrong}}}}}\nanalysis: {{stages: []}}").problems
    assert [problem.place.line for problem in problems if problem.place is not None] == [1]


def test_everything_a_stage_asks_for_arrives(workflow: Load) -> None:
    text = "execution: {pools: {gpu: {}, old: {}}}\n" + stages(
        "id: a, execution: {prefer: gpu, fallback: old, timeout: 30m, retries: 2, "
        "resources: {cpus: 2, memory: 40GB, gpus: 1, disk: 10GB}, "
        "modifiers: [gpu.preload, {name: cuda.jit, params: {exact: false}}]}",
        "id: b, execution: {require: [gpu, a100]}",
    )
    first, second = workflow(text).stages
    path = ("analysis", "stages", 0, "execution")
    assert first.requirement == Requirement(
        prefer="gpu",
        fallback=("old",),
        amounts=Amounts(cpus=2, memory=40 * 10**9, gpus=1, disk=10**10),
        timeout=1800,
        retries=2,
        modifiers=(
            PluginUse("gpu.preload", {}, (*path, "modifiers", 0)),
            PluginUse("cuda.jit", {"exact": False}, (*path, "modifiers", 1)),
        ),
        path=path,
    )
    assert second.requirement.labels == ("gpu", "a100")


@pytest.mark.parametrize(
    "datasets",
    [
        "data: {datasets: [{name: top, files: a.root, eventtype: mc, xs: 3, meta: {year: 2018}}]}",
        "data: {datasets: {top: {files: [a.root], xs: 3, metadata: {year: 2018}}}}",
        "datasets: {top: {files: [a.root], meta: {year: 2018}}}\ndata: {defaults: {xs: 3, eventtype: mc}}",
    ],
)
def test_datasets_may_be_written_in_several_ways(workflow: Load, datasets: str) -> None:
    (dataset,) = workflow(f"{datasets}\nanalysis: {{stages: []}}").datasets
    assert (dataset.name, dataset.files, dataset.eventtype) == ("top", ("a.root",), "mc")
    assert dataset.metadata == {"xs": 3, "year": 2018}


def test_datasets_of_the_top_level_come_first(workflow: Load) -> None:
    text = "datasets: {b: b.root}\ndata: {datasets: {a: [a.root]}}\nanalysis: {stages: []}"
    assert [dataset.name for dataset in workflow(text).datasets] == ["b", "a"]


def test_defaults_hold_for_datasets_that_do_not_say_otherwise(workflow: Load) -> None:
    text = """
        data:
          defaults: {eventtype: data, nevents: 1e3, group: all}
          datasets: {a: {files: f}, b: {files: g, eventtype: mc, nevents: 5}}
        analysis: {stages: []}
    """
    found = [(d.eventtype, d.nevents, d.group) for d in workflow(text).datasets]
    assert found == [("data", 1000, "all"), ("mc", 5, "all")]


def test_max_events_says_how_many_are_read_and_nevents_how_many_were_generated(workflow: Load) -> None:
    text = """
        data:
          defaults: {max_events: 10}
          datasets: {a: {files: f, nevents: 500}, b: {files: g, max_events: 0}}
        datasets: {c: {files: h, nevents: 7, max_events: 9}}
        analysis: {stages: []}
    """
    found = {d.name: (d.nevents, d.limit, d.metadata) for d in workflow(text).datasets}
    assert found == {
        "c": (7, ("max_events", 9), {}),
        "a": (500, ("max_events", 10), {}),
        "b": (None, ("max_events", 0), {}),
    }


def test_sources_keep_their_own_settings_apart(workflow: Load) -> None:
    text = "sources: {e: {kind: root_tree, tree: Events, branches: [a], start: 1, stop: 9, chunk_size: 1e5}}"
    (source,) = workflow(f"{text}\nanalysis: {{stages: []}}").sources
    assert (source.settings, source.branches) == ({"tree": "Events"}, ("a",))
    assert (source.start, source.stop, source.chunk_size) == (1, 9, 100_000)


def test_fields_and_joins_arrive(workflow: Load) -> None:
    text = """
        sources: {a: {tree: t}, b: {tree: t}}
        joins: {both: {inputs: [{source: a, prefix: A}, b]}}
        fields: {pt: {stream: both, branch: A.Muon_Pt}, eta: Muon_Eta}
        analysis: {stages: []}
    """
    loaded = workflow(text)
    (join,) = loaded.sources  # which is what its own sources are read through
    assert (join.id, join.kind, join.of) == ("both", "zip", ("a", "b"))
    assert [one["prefix"] for one in join.settings["inputs"]] == ["A", "b"]
    assert [(f.alias, f.stream, f.branch) for f in loaded.fields] == [
        ("pt", "both", "A.Muon_Pt"),
        ("eta", None, "Muon_Eta"),
    ]


def test_a_stage_may_apply_to_some_datasets(workflow: Load) -> None:
    text = "datasets: {top: a.root}\n" + stages("id: a, applies_to: {eventtype: mc, datasets: [top]}")
    assert workflow(text).stages[0].applies_to == AppliesTo(("mc",), ("top",))


def test_skims_take_their_layout_from_outputs(workflow: Load) -> None:
    text = "outputs: {slim: {tree: events, keep: [a, b]}}\n" + stages(
        "id: a, write: [{path: x.root, use: slim}, {kind: root_tree, path: y.root, use: slim, keep: c}]",
        "id: b, write: {path: z.root, from: a}",
    )
    writes = workflow(text).stages[0].write
    assert [(w.path_template, w.keep, dict(w.settings)) for w in writes] == [
        ("x.root", ("a", "b"), {"tree": "events"}),
        ("y.root", ("c",), {"tree": "events"}),
        ("z.root", None, {}),
    ]


STYLES = """
styles:
  plain: {figure: {size: [8, 6], dpi: 80}, style: {experiment: CMS}}
  line: {use: plain, op: hep.render.hist1d, out: from_style.png}
  fine: {use: line, with: {figure: {dpi: 300}}}
"""


@pytest.mark.parametrize(
    ("render", "out", "dpi"),
    [
        ("line", "from_style.png", 80),
        ("fine", "from_style.png", 300),
        ("{style: line, out: x.png}", "x.png", 80),
        ("{style: {use: line, with: {figure: {dpi: 100}}}}", "from_style.png", 100),
        ("{use: line, with: {figure: {dpi: 100}}, out: x.png}", "x.png", 100),
        ("{style: {op: hep.render.hist1d, use: plain}, out: x.png, when: final}", "x.png", 80),
        ("{op: hep.render.hist1d, figure: {dpi: 50, size: [8, 6]}, style: {experiment: CMS}}", None, 50),
    ],
)
def test_styles_are_resolved_into_settings(workflow: Load, render: str, out: str | None, dpi: int) -> None:
    (found,) = workflow(STYLES + stages(f"id: a, render: {render}")).stages[0].render
    assert (found.name, found.out) == ("hep.render.hist1d", out)
    assert found.settings == {"figure": {"size": [8, 6], "dpi": dpi}, "style": {"experiment": "CMS"}}


def test_a_wrong_key_of_a_style_is_shown_where_the_style_is_written(read: Read) -> None:
    text = "styles: {line: {op: hep.render.hist1d, figrue: {dpi: 3}}}\n" + stages("id: a, render: line")
    (problem,) = read(text).problems
    assert str(problem).startswith("flow.yaml:1:40: there is no key 'figrue' in renderer 'hep.render.hist1d'")


def test_several_pictures_may_hang_on_one_stage(workflow: Load) -> None:
    text = STYLES + stages("id: a, render: [line, {style: fine, out: b.pdf}]", "id: b, render: {style: line, from: a}")
    first, second = workflow(text).stages
    assert [render.out for render in first.render] == ["from_style.png", "b.pdf", "from_style.png"]
    assert second.render == ()


def test_plugins_say_where_they_came_from(workflow: Load) -> None:
    text = """
        plugins: [own_operations.py]
        registry: {operations: {custom.other: {impl: "cenote.analysis.operations.hep.hist.operation:Hist"}}}
        analysis: {stages: [{id: a, op: custom.other}]}
    """
    own, other = workflow(text).plugins
    assert own.target.endswith("/own_operations.py")
    assert (other.target, other.kind, other.name) == (
        "cenote.analysis.operations.hep.hist.operation:Hist",
        "operation",
        "custom.other",
    )


def test_constants_and_version_arrive(workflow: Load) -> None:
    loaded = workflow("version: 1.0\nanalysis: {globals: {lumi: 59.7, names: [a]}, stages: []}")
    assert (loaded.version, loaded.constants) == ("1.0", {"lumi": 59.7, "names": ["a"]})


def test_empty_sections_mean_that_nothing_was_said(workflow: Load) -> None:
    keys = (
        "use",
        "data",
        "datasets",
        "sources",
        "fields",
        "joins",
        "outputs",
        "styles",
        "plugins",
        "registry",
        "execution",
    )
    text = "".join(f"{key}:\n" for key in keys) + "analysis:\n  globals:\n  stages: []\n"
    assert workflow(text).stages == ()


def test_a_stage_that_draws_variations_gives_a_picture_of_each(workflow: Load) -> None:
    text = """
    analysis:
      stages:
        - {id: Pt, op: hep.hist, params: {axes: [pt]}}
        - {id: Shift, op: hep.render.comparison, from: Pt, out: "shift_{variation}", variations: {values: [up, down]}}
    """
    (stage,) = workflow(text).stages
    assert [(render.by, render.out) for render in stage.render] == [
        ("Shift_up", "shift_up"),
        ("Shift_down", "shift_down"),
    ]
    assert [render.settings["comparison"]["variation"] for render in stage.render] == ["up", "down"]
