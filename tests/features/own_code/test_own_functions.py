"""Functions of one's own in expressions: `registry.functions`, as FAST-HEP has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot

import cenote

from ..conftest import Desk

MODULE = """
import numpy as np


def smeared(pt, by, *, offset=0.0):
    return pt * by + offset


def lead(*values):
    import awkward as ak
    return [float(ak.max(row)) if len(row) else 0.0 for row in values[0]]


def all_of_it(pt):
    return np.zeros(3)


NUMBER = 5
"""
FLOW = """
data: {datasets: [{name: dy, files: [dy.root]}]}
registry:
  functions:
    smeared: "MODULE:smeared"
    lead: {impl: "MODULE:lead"}
    cube_root: "numpy:cbrt"
    sqrt: "numpy:sqrt"
EXECUTION
analysis:
  stages:
    - id: Vars
      op: hep.define
      params:
        variables:
          - {name: hard, expr: "lead(smeared(Muon_pt, 2, offset=1))"}
          - {name: root, expr: "cube_root(nMuon)"}
    - {id: Sum, op: aggregate, params: {values: {hard: {op: sum, of: hard}, root: {op: sum, of: root}}}}
"""


def by_hand(path: Path, factor: float, offset: float = 1.0) -> list[tuple[float, float]]:
    events = uproot.open(path)["events"].arrays(["Muon_pt", "nMuon"])
    hard = [max(row) * factor + offset if row else 0.0 for row in events.Muon_pt.tolist()]
    return [(pytest.approx(sum(hard), rel=1e-6), pytest.approx(float(np.cbrt(events.nMuon.to_numpy()).sum())))]


@pytest.mark.parametrize("execution", ["", "execution: {backend: dask, pools: {default: {workers: 1}}}"])
def test_a_function_of_any_module_runs_on_workers(desk: Desk, monkeypatch: pytest.MonkeyPatch, execution: str) -> None:
    """A process of its own has to import it, and a change of it makes another result."""
    name = f"own_functions_{len(execution)}"
    code = desk.write(f"{name}.py", MODULE)
    monkeypatch.syspath_prepend(str(desk.folder))
    data = desk.muons("dy.root", events=200)
    flow = desk.write("flow.yaml", FLOW.replace("MODULE", name).replace("EXECUTION", execution))
    workers = None if execution else 2
    run = cenote.load(flow).run(desk.folder / "out", workers=workers)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("Sum").rows() == by_hand(data, 2.0)
    code.write_text(code.read_text().replace("pt * by + offset", "pt * by - offset"))
    again = cenote.load(flow).run(desk.folder / "out", workers=workers)
    assert again.product("Sum").rows() == by_hand(data, 2.0, -1.0)


@pytest.mark.parametrize(
    ("old", "new", "words", "hint"),
    [
        ("MODULE:smeared", "nowhere.at_all:smeared", "cannot be imported: ", "name its folder in PYTHONPATH"),
        ("MODULE:smeared", "MODULE:NUMBER", "is not a function: it is of type int", ""),
        ("MODULE:smeared", "smeared", 'registry.functions.smeared needs "module:function"', ""),
        ("numpy:sqrt", "MODULE:smeared", "expressions have a function 'sqrt' already", "give yours another name"),
        ("(Muon_pt, 2,", "(Muon_pt,", "smeared takes 2 values, not 1", "smeared(pt, by)"),
        ("offset=1", "ofset=1", "smeared has no option 'ofset'", "did you mean 'offset'?"),
        ("lead(", "laed(", "there is no function 'laed'", "did you mean 'lead'?"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_the_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str, hint: str
) -> None:
    desk.write("checked_functions.py", MODULE)
    monkeypatch.syspath_prepend(str(desk.folder))
    desk.muons("dy.root", events=5)
    assert old in FLOW
    desk.write("flow.yaml", FLOW.replace(old, new).replace("MODULE", "checked_functions").replace("EXECUTION", ""))
    checked = desk.typed("check", "flow.yaml")
    assert checked.returncode != 0
    assert words in checked.stderr
    assert hint in checked.stderr


def test_a_function_that_loses_events_fails_the_stage(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("losing_functions.py", MODULE)
    monkeypatch.syspath_prepend(str(desk.folder))
    desk.muons("dy.root", events=50)
    text = FLOW.replace("MODULE:lead", "MODULE:all_of_it").replace("MODULE", "losing_functions")
    run = cenote.load(desk.write("flow.yaml", text.replace("EXECUTION", ""))).run(desk.folder / "out", workers=1)
    assert run.status == "failed"
    assert "lead(pt) gives 3 values for 50 events" in str(run.failures)
