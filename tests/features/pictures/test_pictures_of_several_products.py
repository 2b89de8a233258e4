"""Stages draw the products of several others together; what cannot be drawn is said before the run."""

from __future__ import annotations

import pytest

import cenote

from ..conftest import Desk

FLOW = """
data:
  datasets:
    - {name: dy, files: [dy.root]}
    - {name: qcd, files: [qcd.root]}
styles:
  small: {figure: {dpi: 30}, formats: [png]}
analysis:
  stages:
    - {id: Vars, op: hep.define, params: {variables: [{name: pt, expr: "leading(Muon_pt)"}]}}
    - {id: All, op: hep.hist, params: {dataset_axis: true, axes: [{source: pt, bins: [10, 0, 100]}]}}
    - {id: Hard, op: hep.select, needs: [Vars], params: {selection: pt > 30}}
    - {id: Passed, op: hep.hist, params: {dataset_axis: true, axes: [{source: pt, bins: [10, 0, 100]}]}}
    - id: TurnOn
      op: hep.render.comparison
      from: [{node: Passed, port: hist, as: reference}, {node: All, port: hist, as: target}]
      params: {style: small, comparison: {comparison: efficiency}}
      out: curves/turn_on.png
    - {id: Both, op: hep.render.hist1d, needs: [Passed, All], params: {style: small}}
    - {id: Count, op: hep.hist, needs: [Hard], params: {axes: [nMuon]}}
"""


def a_flow(desk: Desk, text: str = FLOW) -> str:
    desk.muons("dy.root", events=60)
    desk.muons("qcd.root", events=40)
    desk.write("flow.yaml", text)
    return "flow.yaml"


def test_stages_draw_the_products_of_others_together(desk: Desk) -> None:
    a_flow(desk)
    run = cenote.load(desk.folder / "flow.yaml").run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    plots = desk.folder / "out" / "plots"
    pictures = {str(path.relative_to(plots)) for path in plots.rglob("*.png")}
    assert pictures == {"All.png", "Passed.png", "Count.png", "curves/turn_on.png", "Both.png"}
    drawn = {record["name"]: set(record["plots"]) for record in run.summary["products"]}
    assert {"plots/curves/turn_on.png", "plots/Both.png"} <= drawn["Passed"]
    elsewhere = cenote.load(desk.folder / "flow.yaml", backend="dask").run(desk.folder / "dask")
    assert elsewhere.status == "succeeded", str(elsewhere.failures)
    for name in ("curves/turn_on.png", "Both.png"):
        assert (desk.folder / "dask" / "plots" / name).read_bytes() == (plots / name).read_bytes(), name
    part = cenote.load(desk.folder / "flow.yaml").run(desk.folder / "part", workers=1, until=["All"])
    assert part.status == "succeeded", str(part.failures)
    assert not (desk.folder / "part" / "plots" / "Both.png").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("node: All, port", "node: Al, port", ["there is no stage 'Al'", "did you mean 'All'?"]),
        ("as: target", "as: reference", ["stage 'TurnOn' has two inputs called 'reference'"]),
        ("needs: [Passed, All]", "needs: [Passed, Vars]", ["stage 'Vars' makes no product"]),
        ("needs: [Passed, All]", "needs: []", ["stage 'Both' draws nothing"]),
        ("[{source: pt, bins: [10, 0, 100]}]", "[{source: pt, bins: [20, 0, 100]}]", ["20 bins from 0 to 100"]),
        ("comparison: efficiency", "comparison: efficency", ["did you mean 'efficiency'?", "flow.yaml:17"]),
        ("comparison: efficiency", "target: refrence", ["did you mean 'reference'?", "flow.yaml:14"]),
        ("op: hep.render.hist1d", "op: hep.render.hist1", ["did you mean 'hep.render.hist1d'?"]),
    ],
)
def test_what_cannot_be_drawn_together_is_said_before_the_run(
    desk: Desk, right: str, wrong: str, said: list[str]
) -> None:
    checked = desk.typed("check", a_flow(desk, FLOW.replace(right, wrong, 1)))
    assert checked.returncode != 0
    for words in said:
        assert words in checked.stdout + checked.stderr


def test_a_range_that_cuts_a_bin_in_two_is_found_before_the_run(desk: Desk) -> None:
    axes = "[{source: Muon_eta, bins: [24, -2.4, 2.4]}, {source: Muon_pt, type: variable, bins: [0, 20, 50]}]"
    flow = f"""
        data: {{datasets: [{{name: dy, files: [dy.root]}}]}}
        analysis:
          stages:
            - id: H
              op: hep.hist
              params: {{axes: {axes}}}
              render: {{op: hep.render.project, project: {{axis: Muon_pt, ranges: {{Muon_eta: [-1.2, 1.25]}}}}}}
    """
    desk.muons("dy.root", events=60)
    desk.write("flow.yaml", flow)
    checked = desk.typed("check", "flow.yaml")
    assert checked.returncode == 10
    assert "1.25 is not an edge of a bin of the axis 'Muon_eta'" in checked.stderr + checked.stdout
    assert "the nearest edges are 1.2 and 1.4" in checked.stderr + checked.stdout
    desk.write("flow.yaml", flow.replace("1.25", "1.2"))
    assert desk.typed("run", "flow.yaml").returncode == 0


def test_pictures_of_each_dataset_need_datasets_that_are_apart(desk: Desk) -> None:
    desk.muons("dy.root", events=60)
    desk.write(
        "flow.yaml",
        """
        data: {datasets: [{name: dy, files: [dy.root]}]}
        analysis:
          stages:
            - {id: H, op: hep.hist, params: {axes: [Muon_pt]}, render: {op: hep.render.hist1d, when: dataset}}
        """,
    )
    checked = desk.typed("check", "flow.yaml")
    assert checked.returncode == 0
    assert "`when: dataset` draws one picture of all of them" in checked.stderr
