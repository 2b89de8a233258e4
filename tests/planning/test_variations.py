"""What variations add to a workflow, and what is wrong with some of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cenote

HEAD = """
datasets: [{name: a, files: a.parquet}, {name: b, files: b.parquet, eventtype: data}, {name: c, files: a.parquet}]
sources: {events: {kind: parquet}}
analysis:
  stages:
    - {id: X, op: define, params: {x2: 2 * x}}
    - {id: Y, op: define, params: {y2: 2 * y}}
    - {id: Unread, op: define, params: {x3: 3 * x}}
    - {id: Cut, op: filter, params: {expr: y2 > 0.5}}
    - {id: Hx, op: hep.hist, params: {weight_expr: w, axes: [{source: x2, type: regular, bins: [4, 0, 4]}]}, render: []}
    - {id: CutX, op: filter, params: {expr: x2 > 0.5}}
    - {id: Hy, op: hep.hist, params: {weight_expr: w, axes: [{source: y2, type: regular, bins: [4, 0, 4]}]}, render: []}
systematics:
  variations:
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(1)
    for name, columns in {"a": ("x", "y", "w", "x_up", "w_up"), "b": ("x", "y", "w")}.items():
        pq.write_table(pa.table({one: numbers.uniform(0, 2, 20) for one in columns}), tmp_path / f"{name}.parquet")
    return tmp_path


def analysis(folder: Path, *variations: str) -> cenote.Analysis:
    (folder / "flow.yaml").write_text(HEAD + "".join(f"    - {one}\n" for one in variations))
    return cenote.load(folder / "flow.yaml")


def added(folder: Path, *variations: str) -> list[str]:
    plan = analysis(folder, *variations).plan()
    return [stage.id for stage in plan.workflow.stages if stage.varied is not None]


def test_a_weight_adds_no_stage(folder: Path) -> None:
    assert added(folder, "{name: w_up, applies_to: mc, weight: {multiply: w_up}}") == []


def test_stages_that_do_not_read_what_differs_are_shared(folder: Path) -> None:
    assert added(folder, "{name: up, applies_to: mc, replace: {x: x_up}}") == ["X@up", "CutX@up", "Hy@up"]


def test_a_variation_can_require_stages_as_fast_hep_writes_them(folder: Path) -> None:
    varied = "{name: up, applies_to: mc, replace: {x: x_up}, requires: [x_up, stage.X, stage.Elsewhere]}"
    assert added(folder, varied) == ["X@up", "CutX@up", "Hy@up"]
    warnings = analysis(folder, varied).plan().warnings
    assert [words for words in warnings if "requires" in words] == [
        "variation 'up' requires the stage 'Elsewhere', which is not there"
    ]


def test_a_variation_ends_where_it_is_told_to(folder: Path) -> None:
    assert added(folder, "{name: up, applies_to: mc, replace: {x: x_up}, stop_before: CutX}") == ["X@up"]


def test_a_patch_runs_again_from_the_stage_that_it_changes(folder: Path) -> None:
    assert added(folder, "{name: cut, anchor: CutX, patch: {expr: x2 > 0.6}}") == ["CutX@cut", "Hy@cut"]


def test_a_variation_reads_its_columns_in_its_datasets_alone(folder: Path) -> None:
    plan = analysis(folder, "{name: up, applies_to: mc, replace: {x: x_up}}").plan()
    (source,) = [segment.source for segment in plan.segments if segment.source is not None]
    assert source.columns["a"] == ("w", "x", "x_up", "y")
    assert source.columns["b"] == ("w", "x", "y")


def test_check_and_plan_tell_what_variations_cost(folder: Path) -> None:
    variations = (
        "{name: w_up, applies_to: mc, weight: {multiply: w_up}}",
        "{name: up, applies_to: mc, replace: {x: x_up}}",
    )
    assert analysis(folder, *variations).check().notes == (
        "2 variations in one pass over the data: 4 of 7 stages shared, 3 run again, 3 times in all",
        "w_up: histograms are filled again, nothing else",
        "up: X beside the nominal events; CutX … Hy on events of their own",
    )


@pytest.mark.parametrize(
    ("variation", "words", "place"),
    [
        ("{name: up, replace: {x: x_upp}, applies_to: mc}", "names 'x_upp', which no file and no stage", "15:27"),
        ("{name: up, replace: {x: x_up}}", "names 'x_up', which no file and no stage provides", "15:27"),
        ("{name: up, weight: {multiply: w_upp}, applies_to: mc}", "reads 'w_upp', which is not there", "15:37"),
        ("{name: up, weight: {multiply: w +}}", "the expression ends too early", "15:37"),
        ("{name: nominal, weight: {multiply: w}}", "no variation can be called 'nominal'", "15:14"),
        ("{name: up, anchor: Xx, patch: {x2: x}}", "there is no stage 'Xx'", "15:26"),
        ("{name: up, patch: {x2: x}}", "'anchor' is missing", "15:7"),
        ("{name: up, anchor: CutX, patch: {exp: x}}", "there is no key 'exp' in the params of stage 'CutX'", "15:40"),
        ("{name: up, anchor: Hx, patch: {axes: [x]}}", "gives the histogram of stage 'Hx' other axes", "15:37"),
        ("{name: up, datasets: {replace: {a: d}}}", "there is no dataset 'd'", "15:42"),
        ("{name: up, datasets: {replace: {a: c, b: c}}}", "takes the place of both 'a' and 'b'", "15:48"),
        ("{name: up, applies_to: {datasets: [z]}, weight: {multiply: w}}", "there is no dataset 'z'", "15:42"),
        ("{name: 'up{d}', matrix: {e: [1, 2]}, weight: {multiply: w}}", "there is no 'd' in the matrix", "15:14"),
        ("{name: up, matrix: {e: [1, 2]}, weight: {multiply: w}}", "two variations are named 'up'", "15:14"),
        ("{name: up, wieght: {multiply: w}}", "there is no key 'wieght' in variation 'up'", "15:18"),
        ("{name: 'up{e}', matrix: {e: []}, weight: {multiply: w}}", "'matrix.e' of variation 'up{e}'", "15:35"),
        ("{name: up, anchor: CutX, patch: {expr: xx > 1}}", "makes stage 'CutX' read 'xx'", "15:39"),
        (
            "{name: s_up, weight: {multiply: 2}}\n    - {name: sUp, weight: {multiply: 3}}",
            "variations 's_up' and 'sUp' are both the up side of 's'",
            "16:14",
        ),
    ],
)
def test_what_is_wrong_with_a_variation_is_said_with_its_place(
    folder: Path, variation: str, words: str, place: str
) -> None:
    problems = analysis(folder, variation).check().problems
    found = [problem for problem in problems if words in problem.message]
    assert found, str([str(problem) for problem in problems])
    assert str(found[0].place).endswith(f"flow.yaml:{place}")


def test_a_variation_leaves_columns_where_it_ends(folder: Path) -> None:
    variation = (
        "{name: up, applies_to: mc, replace: {x: x_up}, stop_before: [stage.Cut], export: {x2_up: x2, x_of_up: x}}"
    )
    flow = (
        (HEAD + f"    - {variation}\n")
        .replace("source: x2,", "source: x2_up,", 1)
        .replace("id: Hx,", "id: Hx, applies_to: {eventtype: mc},")
    )
    (folder / "flow.yaml").write_text(flow)
    run = cenote.load(folder / "flow.yaml").run(folder / "out", workers=1)
    table = pq.read_table(folder / "a.parquet").to_pydict()
    kept = np.array(table["y"]) * 2 > 0.5
    expected, _ = np.histogram(
        2 * np.array(table["x_up"])[kept], bins=4, range=(0, 4), weights=np.array(table["w"])[kept]
    )
    np.testing.assert_allclose(run.product("Hx").values(), 2 * expected, rtol=1e-12)  # dataset c has the same file


def test_variations_come_from_profiles_too(folder: Path) -> None:
    (folder / "more.yaml").write_text("variations:\n  - {name: up, applies_to: mc, replace: {x: x_up}}\n")
    text = HEAD.replace("systematics:\n", "systematics:\n  profiles: [more.yaml]\n")
    (folder / "flow.yaml").write_text(text + "    - {name: w_up, applies_to: mc, weight: {multiply: w_up}}\n")
    plan = cenote.load(folder / "flow.yaml").plan()
    assert plan.workflow.systematics is not None
    assert [one.name for one in plan.workflow.systematics.variations] == ["up", "w_up"]
    (folder / "more.yaml").write_text("variations:\n  - {name: up, replace: {x: x_upp}}\n")
    (problem,) = {str(one.place) for one in cenote.load(folder / "flow.yaml").check().problems}
    assert problem.endswith("more.yaml:2:5")


def test_flags_of_a_cutflow_that_keeps_all_events_vary(folder: Path) -> None:
    cutflow = "{id: CutX, op: hep.selection.cutflow, params: {filter: none, selection: {hard: [x2 > 0.5]}}}"
    old = "{id: CutX, op: filter, params: {expr: x2 > 0.5}}"
    flagged = HEAD.replace(old, cutflow).replace("source: y2,", "source: y2 * CutX_hard,")
    (folder / "flow.yaml").write_text(flagged + "    - {name: up, applies_to: mc, replace: {x: x_up}}\n")
    plan = cenote.load(folder / "flow.yaml").plan()
    assert [stage.id for stage in plan.workflow.stages if stage.varied] == ["X@up", "CutX@up"]
    assert [product.name for product in plan.products] == ["Hx", "CutX", "Hy"]


def test_what_is_made_of_a_whole_dataset_is_nominal_and_that_is_said(folder: Path) -> None:
    (folder / "ops.py").write_text(
        "from cenote import operation\n\n\n"
        "@operation('custom.sum', reads=lambda params: [params.column], scope='dataset', product='sum')\n"
        "def total(events, *, column: str):\n    return float(events[column].sum())\n"
    )
    summed = "    - {id: Sum, op: custom.sum, needs: [], params: {column: x}}\n"
    text = "plugins: [ops.py]" + HEAD.replace("    - {id: X,", summed + "    - {id: X, needs: [],").replace(
        "{id: Y,", "{id: Y, needs: [X, Sum],"
    )
    (folder / "flow.yaml").write_text(text + "    - {name: up, applies_to: mc, replace: {x: x_up}}\n")
    assert [words for words in cenote.load(folder / "flow.yaml").check().warnings if "Sum" in words] == [
        "stage 'Sum' sees the nominal events at once: its product does not vary for up"
    ]
    (folder / "flow.yaml").write_text(text + "    - {name: up, anchor: Sum, patch: {column: y}}\n")
    (problem,) = cenote.load(folder / "flow.yaml").check().problems
    assert "cannot change stage 'Sum', which has scope 'dataset'" in problem.message


def test_names_that_mean_two_things_are_refused(folder: Path) -> None:
    varied = "    - {name: up, applies_to: mc, replace: {x: x_up}}\n"
    (folder / "flow.yaml").write_text(HEAD.replace("id: Unread,", "id: Hy@up,") + varied)
    (problem,) = cenote.load(folder / "flow.yaml").check().problems
    assert "no stage can be called 'Hy@up'" in problem.message
    own = "weight_expr: w, variations: {weights: {nominal: w, up: 2 * w}}, axes"
    (folder / "flow.yaml").write_text(HEAD.replace("weight_expr: w, axes", own) + varied)
    messages = [problem.message for problem in cenote.load(folder / "flow.yaml").check().problems]
    assert messages[0] == "variation 'up' is called like a weight of stage 'Hx', in the same histogram"


def test_what_variations_add_goes_by_names_of_its_own(folder: Path) -> None:
    text = HEAD.replace("{id: Unread, op: define, params: {x3: 3 * x}}", "{id: X@a, op: define, params: {x2: x2 + x}}")
    varied = [f"    - {{name: {name}, applies_to: mc, replace: {{x: x_up}}}}\n" for name in ("b", "a@b")]
    (folder / "flow.yaml").write_text(text + "".join(varied))
    stages = [stage for stage in cenote.load(folder / "flow.yaml").plan().workflow.stages if stage.varied is not None]
    beside = {stage.id: stage.varied for stage in stages if stage.varied and stage.varied.beside}
    assert {name: (varied.stage, varied.variation) for name, varied in beside.items()} == {
        "X@b": ("X", "b"),
        "X@a@b~2": ("X", "a@b"),
        "X@a@b": ("X@a", "b"),
        "X@a@a@b": ("X@a", "a@b"),
    }


def test_variations_without_effect_are_named(folder: Path) -> None:
    idle = ("{name: a, applies_to: mc, replace: {w_up: x_up}}", "{name: b, applies_to: mc, replace: {x: x_up}}")
    found = analysis(folder, *idle).check()
    (words,) = [words for words in found.warnings if "depends" in words]
    assert words.startswith("no histogram depends on 1 variation: a (a column is replaced in stages that read it")
    assert [words for words in found.notes if words.startswith(("a", "b"))] == [
        "b: X beside the nominal events; CutX … Hy on events of their own"
    ]
    (folder / "flow.yaml").write_text(HEAD.replace("weight_expr: w, ", "") + "    - {name: a, weight: {multiply: v}}\n")
    (problem,) = cenote.load(folder / "flow.yaml").check().problems
    assert problem.message == "variation 'a' names 'v', which no file and no stage provides"


REPLACED = """
datasets: [{name: tt, files: a.parquet, xsec: 2, n: 20}, {name: alt, files: [a.parquet, b.parquet], xsec: 3, n: 80}]
sources: {events: {kind: parquet}}
analysis:
  stages:
    - {id: W, op: define, params: {per_event: dataset_xsec / dataset_n, is_tt: "dataset_name == 'tt'"}}
    - id: H
      op: hep.hist
      params: {dataset_axis: true, axes: [{source: is_tt * 1, type: regular, bins: [1, 0, 2]}]}
      render: {op: hep.render.pyhf, out: H, transforms: [{kind: luminosity, lumi: 1, generated: n}]}
    - id: Hw
      op: hep.hist
      params: {dataset_axis: true, weight_expr: per_event, axes: [{source: x, type: regular, bins: [1, 0, 2]}]}
      render: {op: hep.render.pyhf, out: Hw}
systematics: {variations: [{name: gen, datasets: {replace: {tt: alt}}}]}
"""


def test_a_dataset_that_replaces_another_counts_with_numbers_of_its_own(folder: Path) -> None:
    (folder / "flow.yaml").write_text(REPLACED)
    cenote.load(folder / "flow.yaml").run(folder / "out", workers=1)
    for name, scale in (("H", 1000), ("Hw", 1)):
        (sample,) = json.loads((folder / "out" / "plots" / f"{name}.json").read_text())["channels"][0]["samples"]
        assert sample["data"] == pytest.approx([20 * scale * 2 / 20])
        assert sample["modifiers"][0]["data"]["hi_data"] == pytest.approx([40 * scale * 3 / 80])
    (folder / "flow.yaml").write_text(REPLACED.replace("n: 20", "n: 20, m: 20").replace("generated: n", "generated: m"))
    (problem,) = cenote.load(folder / "flow.yaml").check().problems
    assert problem.message == "dataset 'alt' cannot be scaled to a luminosity: its 'm' is missing"


def test_a_dataset_that_is_not_there_cannot_be_replaced(folder: Path) -> None:
    (folder / "flow.yaml").write_text(REPLACED.replace("{tt: alt}", "{ttt: alt, tt: altt}"))
    problems = [problem.message for problem in cenote.load(folder / "flow.yaml").check().problems]
    assert problems == ["there is no dataset 'ttt'", "there is no dataset 'altt'"]
