"""Test that the JSON Schema accepts what the language accepts and refuses slips of the pen."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.json_schema import DIALECT, Purpose, workflow_schema
from cenote.language.yaml.source import parse_yaml

SCHEMA = workflow_schema()
PURPOSES: tuple[Purpose, ...] = ("workflow", "profile", "site")
VALIDATORS = {purpose: jsonschema.Draft202012Validator(workflow_schema(purpose)) for purpose in PURPOSES}
ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "src/cenote/cli/templates").glob("*/*.yaml"))
SITES = sorted((ROOT / "examples/sites").glob("*.yaml"))
SNIPPETS = ROOT / "tests/features/workflows/seed_snippets"


def complaints(text: str, purpose: Purpose = "workflow") -> list[str]:
    root = parse_yaml(text, file="f", layer="f").root
    assert root is not None
    return [f"{error.json_path}: {error.message}" for error in VALIDATORS[purpose].iter_errors(root.plain())]


def is_accepted(text: str) -> bool:
    return not complaints(text)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("file", [*TEMPLATES, *sorted((SNIPPETS / "workflows").glob("*.yaml"))], ids=name_of)
def test_every_workflow_that_we_ship_is_accepted(file: Path) -> None:
    assert complaints(file.read_text()) == []


@pytest.mark.parametrize("file", SITES, ids=name_of)
def test_every_file_of_a_site_is_accepted_as_one(file: Path) -> None:
    assert complaints(file.read_text(), "site") == []
    assert complaints(file.read_text().replace("pool_profiles:", "pool_profile:"), "site") != []


@pytest.mark.parametrize("file", sorted((SNIPPETS / "executions").glob("*.yaml")), ids=name_of)
def test_every_infrastructure_is_accepted_as_a_profile(file: Path) -> None:
    assert complaints(file.read_text(), "profile") == []


@pytest.mark.parametrize("file", sorted((SNIPPETS / "stages").glob("*.yaml")), ids=name_of)
def test_what_a_stage_asks_for_is_accepted(file: Path) -> None:
    indented = "".join(f"      {line}\n" for line in file.read_text().splitlines())
    assert complaints(f"analysis:\n  stages:\n    - id: a\n      op: custom.x\n{indented}") == []


def test_it_is_a_schema_of_the_dialect_it_names() -> None:
    assert SCHEMA["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "analysis: {stages: []}",
        "analysis: {stages: [{id: a, op: custom.x, needs: b, execution: {require: gpu, modifiers: [gpu.preload]}}]}",
        "analysis: {stages: [{id: a, op: custom.x, from: b}, {id: c, op: custom.x, in: [{node: a, as: x}]}]}",
        "analysis: {stages: []}\nexecution: {pools: {p: {resources: big, elastic: {max: 3, idle_time: 5m}}}}",
        "analysis: {stages: []}\nexecution: {pools: {p: {resources: {memory: 4GB}, config: {walltime: 04:00:00}}}}",
        "analysis: {stages: []}\ndata: {datasets: {a: {files: x}}}\nfields: {a: b}\nversion: 1.0",
        "analysis: {stages: [{id: a, op: custom.x, render: style, write: {path: p, tree: t}}]}\nstyles: {style: {}}",
        "include: other.yaml",
        "include: [other.yaml]\nanalysis: {globals: {a: 1}}",
        "use: {profiles: three_pools.yaml}",
        "execution: {profiles: [mine.yaml]}",
        "analysis: {stages: []}\nexecution: {pools: {p: {use: gpu_worker, elastic: {min: 1}}}}",
        "analysis: {stages: []}\nexecution:",
        "analysis: {stages: []}\ndata: {datasets: {a: x.root, b: [y.root, z.root]}}",
        "analysis: {stages: []}\nsources: {events: {kind: root_tree, tree: Events}}\nplugins: ops.py",
        *(
            f"analysis: {{stages: [{{id: a, op: {op}, params: {params}}}]}}"
            for op, params in [
                ("filter", "{expr: a > 1}"),
                ("filter", "{selection: [a > 1, {Any: [b, c]}, {reduce: {op: any, over: d}}]}"),
                ("hep.select", "{selection: {all: [a > 1, b]}}"),
                ("define", "{x: a + 1, y: 2}"),
                ("define", "{variables: {x: a + 1, y: {reduce: {op: sum, over: b}}}}"),
                ("hep.define", "{variables: [{name: 'x_{i}', expr: 'a_{i}', matrix: {i: [1, 2]}}]}"),
                ("hep.hist", "{axes: pt}"),
                ("hep.hist", "{axes: {source: pt}}"),
                ("hep.hist", "{axes: [pt, {source: sqrt(x), bins: [10, 0, 1]}, {name: n, type: int}]}"),
                ("hep.hist", "{axes: [{name: r, bins: {nbins: 5, start: 0, stop: 1}}], weight: w, dataset_axis: true}"),
                ("hep.selection.cutflow", "{selection: [a > 1, b]}"),
                ("hep.selection.cutflow", "{selection: a > 1, filter: true}"),
                ("hep.selection.cutflow", "{selection: {expr: a > 1}}"),
                ("hep.selection.cutflow", "{selection: {SR: {cuts: [a], parent: All}, CR: {Any: [b, c]}, Any: [d]}}"),
                ("hep.select_objects", "{collection: Muon, output: Good, selection: pt > 20, keep: [pt], sort: false}"),
            ]
        ),
    ],
)
def test_what_is_correct_is_accepted(text: str) -> None:
    assert is_accepted(text)


@pytest.mark.parametrize(
    "text",
    [
        "analyis: {stages: []}",
        "analysis: {stages: [{id: a}]}",
        "analysis: {stages: [{id: a, op: custom.x, execution: {requires: gpu}}]}",
        "analysis: {stages: []}\nexecution: {pools: {p: {workers: many}}}",
        "analysis: {stages: []}\nexecution: {pools: {p: {elastic: {min: one}}}}",
        "version: 1.0",
        "analysis: {globals: {a: 1}}",
        "analysis: {stages: {id: a, op: b}}",
        "include: {file: other.yaml}",
        "analysis: {stages: []}\ndata: {dataset: []}",
        "analysis: {stages: []}\ndata: {datasets: [{name: a}]}",
        "analysis: {stages: []}\ndata: {datasets: [{name: a, files: x, eventtype: montecarlo}]}",
        "analysis: {stages: []}\nexecution: {pools: {p: {resources: {memory: [4]}}}}",
        "analysis: {stages: []}\nexecution: {pools: {p: {resources: {memroy: 4GB}}}}",
        "analysis: {stages: []}\nexecution: {backends: dask}",
        "analysis: {stages: [{id: a, op: custom.x, write: {path: 5}}]}",
        "analysis: {stages: [{id: a, op: custom.x, applies_to: {eventtype: simulation}}]}",
        *(
            f"analysis: {{stages: [{{id: a, op: {op}, params: {params}}}]}}"
            for op, params in [
                ("filter", "{exp: a > 1}"),
                ("filter", "{selection: [{expression: a}]}"),
                ("filter", "{}"),
                ("define", "{varables: [{name: a, expr: b}]}"),
                ("define", "{variables: [{nam: a, expr: b}]}"),
                ("hep.hist", "{axis: pt}"),
                ("hep.hist", "{axes: [{source: pt, bin: [10, 0, 1]}]}"),
                ("hep.hist", "{axes: [{source: pt, type: regulr}]}"),
                ("hep.hist", "{axes: [{source: pt, bins: {nbins: 5, low: 0, hihg: 1}}]}"),
                ("hep.hist", "{axes: 5}"),
                ("hep.selection.cutflow", "{selections: [a]}"),
                ("hep.selection.cutflow", "{selection: {SR: {step: [a]}}}"),
                ("hep.select_objects", "{collection: Muon, selection: pt > 20, keep: [pt]}"),
            ]
        ),
    ],
)
def test_slips_of_the_pen_are_refused(text: str) -> None:
    assert not is_accepted(text)


def test_every_built_in_operation_brings_its_params() -> None:
    rules = {rule["if"]["properties"]["op"]["const"] for rule in SCHEMA["$defs"]["StageModel"]["allOf"]}
    assert rules == set(registry.built_in_names(PluginKind.OPERATION))


def test_params_of_an_operation_are_checked() -> None:
    stage = "analysis: {stages: [{id: a, op: hep.define, params: {%s: [{name: a, expr: b}]}}]}"
    assert is_accepted(stage % "variables")
    assert not is_accepted(stage % "varables")


def test_every_key_of_the_language_is_documented() -> None:
    parts = {name: part for name, part in SCHEMA["$defs"].items() if name.endswith("Model")} | {"Workflow": SCHEMA}
    silent = [
        f"{name}.{key}"
        for name, part in parts.items()
        for key, value in part.get("properties", {}).items()
        if not value.get("description") and not value.get("$ref")
    ]
    assert silent == []
