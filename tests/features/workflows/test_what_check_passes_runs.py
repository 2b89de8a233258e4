"""What `check` passes can be planned and run: it never says "no problems" of a file that the next command refuses."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import cenote
from cenote.cli.main import exit_code_of
from cenote.cli.start import TEMPLATES
from cenote.language.plugins import registry
from cenote.language.schema.json_schema import workflow_schema
from cenote.testing.muons import write_muons

from ..conftest import DEEP

WORKFLOWS = {"zmumu": ["zmumu.yaml"], "tabular": ["trips.yaml"], "three-pools": ["three_pools.yaml", "training.yaml"]}
MUTANTS, RUNS, SEED = (1000, 40, 1) if DEEP else (100, 4, 2)
ODD: list[Any] = [
    *(None, -1, 0, 1, 2.5, float("nan"), float("inf"), 10**30, True, False, "", "x", "a b", "$x", "%s", "a/b"),
    *([], {}, [1, 2], [None], {"a": 1}, ["x"], "4GB", "4Gb", "data", "default", "Muon_pt", "{dataset}"),
    *("hep.hist", "events", [10, 0, float("inf")], {"variations": []}, "dataset_xsec"),
]
KeyPath = tuple[Any, ...]
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _own_plugins_stay_here() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each template, with its data."""
    folders = {name: tmp_path_factory.mktemp(name) for name in TEMPLATES}
    for name, folder in folders.items():
        assert exit_code_of(["init", str(folder), "--template", name]) == 0
    return folders


def paths(node: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from paths(child, (*path, key))


def at(document: Any, path: KeyPath) -> Any:
    for key in path:
        document = document[key]
    return document


class Mutator:
    """Makes somebody else's slips, always the same ones."""

    def __init__(self, seed: int) -> None:
        schema = workflow_schema()
        self.chance = random.Random(seed)
        self.keys = sorted({k for part in (schema, *schema["$defs"].values()) for k in part.get("properties", {})})

    def mutated(self, document: Document) -> Document:
        changed = copy.deepcopy(document)
        for _ in range(self.chance.choice([1, 1, 1, 2])):
            slip = self.chance.choice([self.remove, self.replace, self.replace, self.misspell, self.move, self.add])
            slip(changed)
        return changed

    def _place(self, document: Document) -> tuple[Any, Any]:
        path = self.chance.choice([path for path in paths(document) if path] or [("version",)])
        return (at(document, path[:-1]) if path[:-1] else document), path[-1]

    def _odd(self) -> Any:
        return copy.deepcopy(self.chance.choice(ODD))

    def remove(self, document: Document) -> None:
        parent, key = self._place(document)
        del parent[key]

    def replace(self, document: Document) -> None:
        parent, key = self._place(document)
        parent[key] = self._odd()

    def misspell(self, document: Document) -> None:
        parent, key = self._place(document)
        if isinstance(parent, dict) and key:
            position = self.chance.randrange(len(key))
            parent[key[:position] + key[position + 1 :]] = parent.pop(key)

    def move(self, document: Document) -> None:
        parent, key = self._place(document)
        other, name = self._place(document)
        parent[key] = copy.deepcopy(other[name])

    def add(self, document: Document) -> None:
        mappings = [path for path in paths(document) if isinstance(at(document, path), dict)]
        at(document, self.chance.choice(mappings))[self.chance.choice(self.keys)] = self._odd()


def test_what_check_passes_of_many_mutated_workflows_is_accepted_by_editors_planned_and_run(
    templates: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutator = Mutator(SEED)
    editor = jsonschema.Draft202012Validator(workflow_schema())
    known = [(templates[name] / file) for name, files in WORKFLOWS.items() for file in files]
    passed: list[Path] = []
    for number in range(MUTANTS):
        original = known[number % len(known)]
        monkeypatch.chdir(original.parent)
        mutant = original.parent / f"mutant-{number}.yaml"
        mutant.write_text(yaml.safe_dump(mutator.mutated(yaml.safe_load(original.read_text()))))
        registry.forget_added()  # a command knows the plugins of its own workflow only
        if cenote.load(mutant).check().ok:
            assert editor.is_valid(yaml.safe_load(mutant.read_text())), mutant.read_text()
            cenote.load(mutant).plan()
            passed.append(mutant)
    assert MUTANTS / 10 < len(passed) < MUTANTS * 9 / 10  # else the slips are too grave or too harmless to tell
    for mutant in passed[:: max(len(passed) // RUNS, 1)]:
        monkeypatch.chdir(mutant.parent)
        registry.forget_added()
        code = exit_code_of(["run", mutant.name, "--out", "out", "--replace", "--quiet", "--backend", "local"])
        assert code in (0, 1, 20), mutant.read_text()


@pytest.fixture
def muons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_muons(tmp_path / "muons.root", events=50, seed=1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


HEAD = "data: {datasets: [{name: d, files: muons.root, xsec: 2.0}, {name: e, files: muons.root}]}\n"
HIST = "{id: H, op: hep.hist, params: {dataset_axis: true, axes: [{name: x, source: MET_pt, bins: %s}], %s}, %s}"


def stages(*written: str) -> str:
    return f"{HEAD}analysis: {{stages: [{', '.join(written)}]}}\n"


def hist(bins: str = "[5, 0, 1]", params: str = "", more: str = "") -> str:
    return stages(HIST.replace("bins:", "type: regular, bins:", 1) % (bins, params, more) if bins else "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (hist() + "systematics: {variations: [{name: up}]}", "variation 'up' changes nothing"),
        (hist() + "sources: {events: {tre: Events}}", "there is no key 'tre' in source 'events'"),
        (hist(params="weight_expr: dataset_xsec"), "reads 'dataset_xsec', but dataset 'e' does not have 'xsec'"),
        (hist("[10, 0, .inf]"), "should be a finite number, not inf"),
        (hist("[10, .nan, 1]"), "should be a finite number, not nan"),
        (hist("[10, 0, true]"), "should be a number, not true"),
        (hist("[true, 0, 1]"), "should be a whole number, not true"),
        (hist("['1x', 0, 1]"), "should be a whole number, not '1x'"),
        (hist("[10, 1, 0]"), "'low' (1.0) must be below 'high' (0.0)"),
        (hist("[10, 1, 1]"), "'low' (1.0) must be below 'high' (1.0)"),
        (hist("[0, 0, 1]"), "should be more than 0, not 0"),
        (hist("[1000000000, 0, 1]"), "should be at most 10000000"),
        (hist(more="render: {op: hep.render.cutflow_csv}"), "draws a cutflow, and stage 'H' makes a product of kind"),
        (hist(more="render: {op: hep.render.heatmap2d}"), "a heat map needs two axes"),
        (hist(more="render: {op: hep.render.hist1d, axes: {x: {name: y}}}"), "has no axis 'y' to draw"),
        (hist(more="render: {op: hep.render.data_mc, data_mc: {data: dd}}"), "'data_mc.data' names 'dd'"),
        (
            stages(
                "{id: H, op: hep.hist, params: {axes: [MET_pt]}, render: {op: hep.render.data_mc, data_mc: {data: e}}}"
            ),
            "`dataset_axis: true` in the params",
        ),
        (stages("{id: F, op: filter, params: {expr: MET_pt + 1}}"), "'MET_pt + 1' is not true or false"),
        (stages("{id: F, op: filter, params: {expr: met > 1}}") + "fields: {met: MET}", "the branch 'MET': no file"),
        (
            hist(params="variations: {weights: {up: '2'}}", more="render: {op: hep.render.hist1d}"),
            "has no variation 'nominal'",
        ),
        (
            stages("{id: F, op: filter, params: {expr: MET_pt > 1}, render: {op: hep.render.hist1d}}"),
            "draws a histogram, and stage 'F' makes no product",
        ),
        ("analysis: {stages: [{id: F, op: filter, params: {expr: x > 1}}]}", "the workflow has no datasets"),
    ],
)
def test_check_refuses_what_run_refuses_in_the_same_words(
    muons: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (muons / "flow.yaml").write_text(text)
    answers = []
    for command in (["check", "flow.yaml"], ["plan", "flow.yaml"], ["run", "flow.yaml", "--out", "out"]):
        code = exit_code_of(command)
        told = capsys.readouterr().err.splitlines()
        answers.append((code, "\n".join(line for line in told if not line.startswith("warning: "))))
    assert words in answers[0][1]
    assert answers[1:] == [answers[0], answers[0]]
    assert 10 <= answers[0][0] < 20


@pytest.mark.parametrize("edges", ["[0, .nan, 2]", "[0, 2, 1]", "[0, 1, 1]", "[0, 1, .inf]", "[1]"])
def test_edges_that_are_no_bins_are_refused(muons: Path, edges: str) -> None:
    axis = f"{{name: x, source: MET_pt, type: variable, bins: {edges}}}"
    (muons / "flow.yaml").write_text(stages(f"{{id: H, op: hep.hist, params: {{axes: [{axis}]}}}}"))
    (problem,) = cenote.load("flow.yaml").check().problems
    assert "edges" in problem.message


def test_a_problem_of_several_datasets_is_told_once(muons: Path) -> None:
    (muons / "flow.yaml").write_text(hist() + "sources: {events: {tree: Evens}}")
    (problem,) = cenote.load("flow.yaml").check().problems
    assert "holds no tree 'Evens'" in problem.message
    assert "the same with 1 more file of: e" in problem.details


@pytest.mark.parametrize(
    ("collection", "field", "wrong"), [("Muon", "ptt", "ptt"), ("Muons", "pt", "Muons"), ("Muon", "phy", "phy")]
)
def test_the_wrong_half_of_a_name_is_pointed_at(muons: Path, collection: str, field: str, wrong: str) -> None:
    params = f"{{collection: {collection}, output: Good, keep: [eta, {field}]}}"
    text = stages(f"{{id: G, op: hep.select_objects, params: {params}}}")
    (muons / "flow.yaml").write_text(text)
    (problem, *_) = cenote.load("flow.yaml").check().problems
    assert problem.place is not None
    assert text.splitlines()[problem.place.line - 1][problem.place.column - 1 :].startswith(wrong)


@pytest.mark.parametrize(("cut", "warned"), [("MET_pt > 0", True), ("!isnan(mass)", False)])
def test_check_warns_of_nan_in_the_last_bin(muons: Path, cut: str, warned: bool) -> None:
    axes, flow = "[{source: mass, type: regular, bins: [2, 0, 200]}]", "{op: hep.render.hist1d, hist1d: {flow: sum}}"
    made = [
        "{id: M, op: hep.di_object_mass, params: {collection: Muon, out_var: mass, mass: 0.1}}",
        f"{{id: S, op: hep.select, params: {{selection: '{cut}'}}}}",
        f"{{id: H, op: hep.hist, params: {{axes: {axes}}}, render: {flow}}}",
    ]
    (muons / "flow.yaml").write_text(stages(", ".join(made)))
    found = cenote.load("flow.yaml").check()
    assert not found.problems
    assert any("'mass' of stage 'M' is NaN" in words for words in found.warnings) is warned
