"""This file tests that the JSON Schema accepts what the language accepts and refuses slips of the pen."""

from __future__ import annotations

import jsonschema
import pytest

from cenote.language.json_schema import DIALECT, workflow_schema
from cenote.language.yaml_source import parse_yaml
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind

SCHEMA = workflow_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def is_accepted(text: str) -> bool:
    root = parse_yaml(text, file="f", layer="f").root
    assert root is not None
    return bool(VALIDATOR.is_valid(root.plain()))


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
        "analysis: {stages: []}\nexecution: {pools: {p: {elastic: {min: 1}}}}",
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
