"""Branches are found by the last part of their path, and `branches` says what events hold besides what stages ask."""

from __future__ import annotations

import json

import pytest
import uproot

import cenote
from builders.root_files import Branch, flat, lists, write_root_file

from ..conftest import Desk

SIZES = [2, 0, 1]
ET, ETA = [[30.0, 8.0], [], [50.0]], [[0.5, -1.0], [], [2.0]]
WITH_JETS = """
data: {datasets: [{name: l1, files: [l1.root]}]}
sources:
  trigger: {kind: root_tree, tree: trigger/Tree}
  reco: {kind: root_tree, tree: reco/Tree}
joins: {events: {kind: zip, inputs: [{source: trigger, prefix: l1}, {source: reco, prefix: reco}]}}
primary_stream: events
fields: {l1_et: {stream: events, branch: "l1.jetEt"}, reco_et: {stream: events, branch: "reco.et"}}
analysis:
  stages:
    - {id: Sum, op: aggregate, params: {values: {l1: {op: sum, of: "sum(l1_et)"}, reco: {op: sum, of: "sum(reco_et)"}}}}
"""
ALONE = """
data: {datasets: [{name: l1, files: [l1.root]}]}
sources: {events: {kind: root_tree, tree: trigger/Tree}}
analysis:
  stages:
    - {id: Sum, op: aggregate, params: {values: {far: {op: sum, of: "sum(jetEt[abs(jetEta) > 0.8])"}}}}
"""


def jets(name: str, values: dict[str, list[list[float]]]) -> Branch:
    """A branch that holds others, with names that do not say so."""
    return Branch(name, branches=(flat("n", "i4", SIZES), *(lists(key, "f4", "n", v) for key, v in values.items())))


def write_jets(desk: Desk, *more: Branch) -> None:
    trees = {
        "trigger/Tree": (3, [jets("L1Upgrade", {"jetEt": ET, "jetEta": ETA}), *more]),
        "reco/Tree": (3, [jets("Jet", {"et": [[1.0, 2.0], [], [4.0]]})]),
    }
    write_root_file(desk.folder / "l1.root", trees)


def test_the_last_part_of_a_path_is_enough_where_only_one_branch_has_it(desk: Desk) -> None:
    write_jets(desk)
    run = cenote.load(desk.write("flow.yaml", WITH_JETS)).run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("Sum").rows() == [(88.0, 7.0)]
    alone = cenote.load(desk.write("alone.yaml", ALONE)).run(desk.folder / "alone", workers=1)
    assert alone.product("Sum").rows() == [(58.0,)]


def test_a_join_holds_what_its_sources_list(desk: Desk) -> None:
    write_jets(desk)
    listed = "tree: trigger/Tree, branches: [jetEta]}", "tree: reco/Tree, branches: [n]}"
    text = WITH_JETS.replace("tree: trigger/Tree}", listed[0]).replace("tree: reco/Tree}", listed[1])
    text += "observers: [{kind: hep.branches, at: [join.events]}]\n"
    run = cenote.load(desk.write("flow.yaml", text)).run(desk.folder / "out", workers=1)
    fields = json.loads((desk.folder / "out/products/branches/join.events.json").read_text())["fields"]
    assert set(fields) == {"l1_L1Upgrade_jetEta", "reco_Jet_n", "l1_et", "reco_et"}
    assert run.product("Sum").rows() == [(88.0, 7.0)]


def test_a_last_part_that_two_branches_have_is_refused(desk: Desk) -> None:
    write_jets(desk, jets("L1Emulator", {"jetEt": ET}))
    desk.write("flow.yaml", WITH_JETS)
    checked = desk.typed("check", "flow.yaml")
    assert checked.returncode == 11
    words = "the branch 'l1.jetEt' of 'l1_et' is within several: l1_L1Emulator_jetEt, l1_L1Upgrade_jetEt"
    assert words in checked.stderr
    assert "hint: write `branch: l1_L1Upgrade_jetEt`" in checked.stderr
    assert "1 problem in flow.yaml" in checked.stderr


SKIM = """
data: {datasets: [{name: dy, files: [dy.root]}]}
sources: {events: {kind: root_tree, branches: LISTED}}
observers: [{kind: hep.branches, at: [read.events]}]
analysis:
  stages:
    - {id: Vars, op: hep.define, params: {variables: [{name: lead, expr: "leading(Muon_pt)"}]}}
    - id: Two
      op: hep.selection.cutflow
      params: {selection: {All: ["nMuon >= 2"]}}
      write: [{kind: root_tree, path: all}, {kind: root_tree, path: some, keep: [Muon_phi, lead]}]
"""


def test_a_skim_holds_the_listed_branches_and_what_stages_ask_for(desk: Desk) -> None:
    desk.muons("dy.root", events=200)
    flow = desk.write("flow.yaml", SKIM.replace("LISTED", "[Muon_eta]"))
    run = cenote.load(flow).run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    products = desk.folder / "out/products"
    read = {"Muon_eta", "Muon_pt", "Muon_phi", "nMuon"}
    assert set(json.loads((products / "branches/read.events.json").read_text())["fields"]) == read
    written = uproot.open(products / "all/dy/00000.root")["events"].keys()
    assert set(written) == {*read, "lead", "Two_All"}
    assert set(uproot.open(products / "some/dy/00000.root")["events"].keys()) == {"Muon_phi", "lead"}


@pytest.mark.parametrize("policy", ["error", "ignore"])
def test_a_listed_branch_that_no_file_has_is_reported(desk: Desk, policy: str) -> None:
    desk.muons("dy.root", events=20)
    desk.write("flow.yaml", SKIM.replace("LISTED", f"[Muon_etaa], missing_branches: {policy}"))
    checked = desk.typed("check", "flow.yaml")
    assert ("source 'events' lists the branch 'Muon_etaa', which no file has" in checked.stderr) is (policy == "error")
    assert ("did you mean 'Muon_eta'?" in checked.stderr) is (policy == "error")
