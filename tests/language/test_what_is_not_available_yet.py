"""Test that parts whose execution comes later are accepted, and never left out in silence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cenote.analysis.operations.interface import Operation
from cenote.common import errors
from cenote.language.availability import unavailable
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PLANNED, PluginKind
from cenote.language.schema.json_schema import language_schema
from cenote.language.workflow import Workflow

Load = Callable[..., Workflow]
AFTER = "\nanalysis: {stages: []}"
STAGE = "analysis: {stages: [{id: a, op: custom.scale, %s}]}\nplugins: own_operations.py"


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("execution: {credentials: [kerberos]}" + AFTER, "Kerberos", "1:26"),
    ],
)
def test_what_a_run_would_need_is_a_problem_of_the_plan(workflow: Load, text: str, words: str, place: str) -> None:
    problems, warnings = unavailable(workflow(text))
    assert warnings == []
    (problem,) = problems
    assert problem.kind is errors.NOT_AVAILABLE
    assert problem.message.startswith("not available yet: ")
    assert words in problem.message
    assert str(problem.place) == f"flow.yaml:{place}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STAGE % "inspect: {kind: own.look}", "observer 'own.look'"),
        (STAGE % "render: {op: hep.render.hist1d, when: partition}", "drawing when: partition"),
        ("execution_hooks: [{kind: own.hook}, {kind: hep.error_report}]" + AFTER, "hook 'own.hook'"),
        ("execution: {backend: dask, config: {dashboard_address: null}}" + AFTER, "execution.config.dashboard_address"),
        ("execution: {staging: {a: b}}" + AFTER, "execution.staging"),
        ("execution: {backend: local, credentials: kerberos}" + AFTER, "Kerberos"),
    ],
)
def test_what_changes_no_result_is_left_out_with_a_warning(workflow: Load, text: str, words: str) -> None:
    problems, warnings = unavailable(workflow(text))
    assert problems == []
    assert words in warnings[0]
    assert "not supported yet" in warnings[0]


PLACES = {
    PluginKind.OPERATION: "analysis: {stages: [{id: a, op: %s}]}",
    PluginKind.RENDERER: STAGE % "render: {op: %s}",
    PluginKind.MODIFIER: "execution: {modifiers: [%s]}" + AFTER,
    PluginKind.BACKEND: "execution: {backend: %s}" + AFTER,
    PluginKind.STRATEGY: "execution: {strategy: %s}" + AFTER,
    PluginKind.ENVIRONMENT: "execution: {environment: {type: %s}}" + AFTER,
    PluginKind.CREDENTIAL: "execution: {credentials: %s}" + AFTER,
}
STILL_PLANNED = [
    (kind, name) for kind, names in PLANNED.items() for name in names if registry.is_planned(kind, name) is not None
]


@pytest.mark.parametrize(("kind", "name"), STILL_PLANNED, ids=str)
def test_a_planned_plugin_is_named_until_it_is_there(workflow: Load, kind: PluginKind, name: str) -> None:
    loaded = workflow(PLACES[kind] % name)
    problems, warnings = unavailable(loaded)
    said = [problem.message for problem in problems] + warnings
    assert len(said) == 1
    assert "yet" in said[0]
    assert f"'{name}'" in said[0]
    registry.add(kind, name, Operation)  # any class will do: only its name is asked for
    assert unavailable(loaded) == ([], [])


def test_on_this_machine_strategies_of_other_machines_do_not_stop_a_run(workflow: Load) -> None:
    text = "execution: {strategy: slurm, pools: {p: {strategy: htcondor}}}" + AFTER
    assert unavailable(workflow(text)) == ([], [])
    problems, warnings = unavailable(workflow(text, backend="local"))
    assert problems == []
    assert [warning.split()[1] for warning in warnings] == ["'slurm'", "'htcondor'"]


MARKED = {
    "RenderModel": ("when",),
}
"""Keys that are accepted and not executed, as the tests above have them."""


@pytest.mark.parametrize(("model", "key"), [(model, key) for model, keys in MARKED.items() for key in keys])
def test_the_language_reference_marks_what_is_not_available(model: str, key: str) -> None:
    schema = language_schema()
    part = schema["$defs"][model] if model else schema
    assert "ot available yet" in part["properties"][key]["description"]
