"""A study that has one of everything on which results depend, and a change of each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import uproot

from builders.studies.study import GAPS, Flow, Study
from cenote.testing.muons import write_muons

PLAIN: Flow = {"render": []}


def hist(name: str, source: str, *needs: str, **params: Any) -> Flow:
    axis = {"name": "x", "type": "regular", "source": source, "bins": {"nbins": 4, "low": 0, "high": 80}, "label": "L"}
    return {"id": name, "op": "hep.hist", "needs": list(needs), "params": {"axes": [axis], **params}, **PLAIN}


def define(name: str, needs: list[str], **variables: str) -> Flow:
    return {"id": name, "op": "hep.define", "needs": needs, "params": {"variables": variables}}


STAGES: list[Flow] = [
    {"id": "Cut", "op": "hep.select", "params": {"selection": ["MET_pt > 5"]}},
    {"id": "Other", "op": "hep.select", "params": {"selection": ["nMuon > 0"]}},
    define("Doubled", ["Cut"], twice="MET_pt * 2"),
    hist("Twice", "twice", "Doubled"),
    define("Again", ["Doubled"], again="twice + 1"),
    hist("Again", "again", "Again") | {"id": "AgainHist"},
    hist("Weighted", "MET_pt", "Cut", weight="dataset_xsec * LUMI", dataset_axis=True),
    hist("Bent", "bent(MET_pt)", "Cut"),
    hist("Filled", "extra", "Cut"),
    hist("Alias", "met"),
    hist("Shifted", "MET_pt", weight="EventWeight"),
    {"id": "Score", "op": "own.score", "needs": ["Cut"], "params": {"column": "MET_pt", "out": "s"}},
    hist("Scored", "s", "Score"),
    {"id": "Table", "op": "own.table", "needs": [], "params": {"out": "t"}},
    hist("Tabled", "t", "Table"),
    {"id": "Lines", "op": "join", "needs": [],
     "params": {"file": "lines.csv", "on": {"nMuon": "number"}, "columns": ["line"], "default": 0.0}},
    hist("Lined", "line", "Lines"),
    {"id": "Total", "op": "own.total", "needs": ["Cut"], "params": {"column": "MET_pt"}, **PLAIN},
    {"id": "Mean", "op": "own.mean", "needs": ["Cut"], "params": {"column": "MET_pt"}, **PLAIN},
    {"id": "Centred", "op": "own.centred", "needs": ["Mean", "Cut"],
     "params": {"column": "MET_pt", "out": "c", "stage": "Mean"}},
    hist("Centre", "c", "Centred"),
    {"id": "Width", "op": "own.width", "scope": "dataset", "needs": [], "params": {}, **PLAIN},
    {"id": "Halves", "op": "hep.project_fields", "needs": ["Doubled"], "params": {"aliases": {"half": "twice"}}},
    hist("Half", "half", "Halves"),
    hist("Whole", "MET_pt", "Doubled") | {"write": {"kind": "own.lines", "keep": ["twice"]}},
    {"id": "Spread", "op": "own.spread", "needs": [], "params": {"column": "MET_pt"}, **PLAIN},
    hist("Both", "MET_pt", "Cut", "Other"),
    define("Fewer", ["Cut"], pick="MET_pt * 1.0"),
    define("More", ["Cut"], pick="MET_pt * 3.0"),
    {"id": "Picked", "op": "hep.merge_fields", "needs": ["Fewer", "More"], "params": {"on_conflict": "keep_last"}},
    hist("Picking", "pick", "Picked"),
    {"id": "Cuts", "op": "hep.selection.cutflow", "needs": [], "params": {"selection": {"A": ["MET_pt > 20", "HLT"]}},
     **PLAIN},
    {"id": "Skim", "op": "filter", "needs": [], "params": {"selection": "MET_pt > 20"},
     "write": {"kind": "own.lines", "keep": ["MET_pt"], "path": "skim/{dataset}-{part}"}},
    hist("Aside", "MET_pt") | {"write": {"kind": "own.lines", "keep": ["EventWeight"]}},
    {"id": "Noisy", "op": "hep.define", "needs": [], "params": {"variables": {"n": "MET_pt * 1"}},
     "execution": {"modifiers": [{"name": "own.noise", "params": {"by": 2.0}}]}},
    hist("Noise", "n", "Noisy"),
    define("Kept", ["Cut"], k="MET_pt + 1", l="EventWeight + 1") | {"execution": {"modifiers": ["cache"]}},
    hist("Keeping", "k", "Kept", weight="l * dataset_xsec"),
    {"id": "Passed", "op": "own.passes", "needs": ["Kept"], "params": {"column": "k"}},
    hist("Passing", "MET_pt", "Passed") | {"execution": {"pool": "other"}},
]  # fmt: skip

VARIATIONS = [
    {"name": "up", "applies_to": "mc", "weight": {"multiply": "1 +\nbent(nMuon)"}},
    {"name": "met", "applies_to": "mc", "replace": {"MET_pt": "EventWeight"}},
]


def whole_study(pool: tuple[Path, ...]) -> Study:
    """The study before any change; its last file has a column that the others lack."""
    stages = copy.deepcopy(STAGES)
    for stage in stages:
        stage.setdefault("needs", [])
    stages.append(hist("Own", "MET_pt") | {"from": "scaled"})
    datasets = [
        {"name": "a", "eventtype": "mc", "files": ["a*.root"], "metadata": {"xsec": 2.0}},
        {"name": "b", "eventtype": "mc", "files": ["b*.root"], "metadata": {"xsec": 3.0}},
    ]
    common: Flow = {"missing_branches": "default"}
    flow: Flow = {
        "plugins": ["ops.py", "wide.py", "looks.py", "sinks.py", "more.py"],
        "registry": {"functions": {"bent": "bending:bent"}},
        "data": {"datasets": datasets},
        "sources": {
            "events": {"kind": "root_tree", "chunk_size": 30, **common},
            "scaled": {"kind": "own.scaled", "same_file": "stamp", **common},
        },
        "fields": {"met": {"stream": "events", "branch": "MET_pt"}},
        "analysis": {"globals": {"LUMI": 1.5}, "stages": stages},
        "systematics": {"variations": copy.deepcopy(VARIATIONS)},
        "execution": {"pools": {"default": {"workers": 1}, "other": {"workers": 1}}},
    }
    data = {"a0.root": pool[0], "b0.root": pool[1], "b1.root": pool[2]}
    return Study(flow, data=data, gaps={**GAPS, "scaled": 2})


def write_whole_pool(folder: Path) -> tuple[Path, ...]:
    """The files of the study, and another one of as many events as the first."""
    first, second, third, like = (
        write_muons(folder / f"whole{seed}.root", events=events, seed=seed, weighted=True)
        for seed, events in enumerate((20, 31, 42, 20))
    )
    with uproot.open(third) as old, uproot.recreate(folder / "more.root") as new:
        arrays = old["events"].arrays(["MET_pt", "EventWeight", "HLT", "nMuon"], library="np")
        new["events"] = {**arrays, "extra": arrays["MET_pt"] * 3}
    return first, second, folder / "more.root", like


def stage(study: Study, name: str) -> Flow:
    """A stage by its id."""
    return next(one for one in study.stages if one["id"] == name)


def _changed(name: str, **params: Any) -> Callable[[Study], Study]:
    def change(study: Study) -> Study:
        stage(study, name)["params"].update(params)
        return study

    return change


def _gap(**gaps: Any) -> Callable[[Study], Study]:
    return lambda study: replace(study, gaps={**study.gaps, **gaps})


def _set(*path: str | int, to: Any) -> Callable[[Study], Study]:
    def change(study: Study) -> Study:
        place: Any = study.flow
        for key in path[:-1]:
            place = (
                next(one for one in place if key in (one.get("id"), one.get("name")))
                if isinstance(place, list) and isinstance(key, str)
                else place[key]
            )
        place[path[-1]] = to
        return study

    return change


def _files(**origins: str) -> Callable[[Study], Study]:
    """Files → of which file each is a copy now; `-` removes it."""

    def change(study: Study) -> Study:
        data = {f"{name}.root": study.data[f"{origin}.root"] for name, origin in origins.items() if origin != "-"}
        kept = {name: origin for name, origin in study.data.items() if name.removesuffix(".root") not in origins}
        return replace(study, data={**kept, **data})

    return change


def _swapped(study: Study) -> Study:
    one, other = study.datasets
    one["name"], other["name"] = other["name"], one["name"]
    return study


def _reversed(study: Study) -> Study:
    study.datasets.reverse()
    return study


def _version(**versions: str) -> Callable[[Study], Study]:
    return lambda study: replace(study, software=versions)


STAGE = ("analysis", "stages")
CHANGES: Mapping[str, Callable[[Study], Study]] = {
    "a cut": _changed("Cut", selection=["MET_pt > 8"]),
    "a definition": _changed("Doubled", variables={"twice": "MET_pt * 2.5"}),
    "a column that is read": _changed("Doubled", variables={"twice": "EventWeight * 2"}),
    "own code": _gap(slope=2.5),
    "a helper": _gap(factor=7),
    "own sink": _gap(written=3),
    "own modifier": _gap(noise=3),
    "own source": _gap(scaled=3),
    "settings of a modifier": _set(
        *STAGE, "Noisy", "execution", to={"modifiers": [{"name": "own.noise", "params": {"by": 4.0}}]}
    ),
    "no modifier": _set(*STAGE, "Noisy", "execution", to={}),
    "settings of a source": _set("sources", "scaled", "times", to=3.0),
    "the kind of a source": _set("sources", "scaled", "kind", to="own.halved"),
    "an alias": _set("fields", "met", "branch", to="EventWeight"),
    "a default": _set("sources", "events", "defaults", to={"extra": 7.0}),
    "a function": lambda study: replace(study, bend=4.0),
    "a table of own code": lambda study: replace(study, table={"scale": 9.0}),
    "a table of an operation": lambda study: replace(study, lines={0: 9.0, 1: 8.0, 2: 50.0}),
    "a fact": _set("data", "datasets", "a", "metadata", to={"xsec": 5.0}),
    "an event type": _set("data", "datasets", "a", "eventtype", to="data"),
    "a constant": _set("analysis", "globals", "LUMI", to=9.0),
    "the order of datasets": _reversed,
    "names of datasets": _swapped,
    "another dataset": _set("data", "datasets", 1, "name", to="c"),
    "a file": _files(a0="b0"),
    "files under each other's name": _files(b0="b1", b1="b0"),
    "a file less": _files(b0="-"),
    "a file in front": _files(a0="b0", a1="a0"),
    "the size of parts": _set("sources", "events", "chunk_size", to=20),
    "a file of as many events": lambda study: replace(
        study, data={**study.data, "a0.root": study.data["a0.root"].with_name("whole3.root")}
    ),
    "the first entry of whole files": _set("sources", "scaled", "start", to=3),
    "the first entry": _set("sources", "events", "start", to=3),
    "the last entry": _set("sources", "events", "stop", to=15),
    "the files of a skim": _set(*STAGE, "Skim", "write", "path", to="skim/{part}-{dataset}"),
    "the columns of a skim": _set(*STAGE, "Skim", "write", "keep", to=["EventWeight"]),
    "the cut of a skim": _changed("Skim", selection="MET_pt > 25"),
    "the order of branches": _set(*STAGE, "Picked", "needs", to=["More", "Fewer"]),
    "another branch": _set(*STAGE, "Both", "needs", to=["Cut"]),
    "a cut in another branch": _changed("Other", selection=["nMuon > 1"]),
    "a variation": _set("systematics", "variations", 0, "weight", to={"multiply": "2 + nMuon"}),
    "what a variation replaces": _set("systematics", "variations", 1, "replace", to={"MET_pt": "nMuon"}),
    "what is kept": _changed("Kept", variables={"k": "MET_pt + 30", "l": "EventWeight + 1"}),
    "the operation": _set(*STAGE, "Total", "op", to="own.squares"),
    "what a product that is used is made of": _changed("Mean", column="EventWeight"),
    "a column of one branch": _changed("More", variables={"pick": "MET_pt * 4.0"}),
    "a column that files are read for": _changed("Doubled", variables={"twice": "MET_pt * 3"}),
    "numpy": _version(numpy="1.0"),
    "Cenote": _version(cenote="0.0"),
}
"""Of what results depend on → a change of it."""
