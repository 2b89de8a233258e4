"""Make up studies: every kind of stage that Cenote tells apart, in graphs with branches, joins and variations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from builders.studies.study import Flow, Study

FIELDS = ("MET_pt", "EventWeight", "nMuon")
LISTS = ("Muon_pt", "Muon_eta")
KINDS = {
    "define": 6, "select": 3, "cutflow": 3, "hist": 7, "score": 2, "table": 1, "looks": 1, "passes": 1, "total": 1,
    "mean": 1, "spread": 1, "join": 1, "skim": 1,
}  # fmt: skip
"""Kind of stage → how often it comes."""


class Maker:
    """Makes up stages, each knowing which columns come to it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.columns: dict[str, list[str]] = {"": list(FIELDS)}
        """Stage → columns of one number per event after it."""
        self.count = 0
        self.stages: list[Flow] = []
        self.means: list[str] = []

    def number(self) -> float:
        return self.random.choice([0, 1, 5, 10, 20, 25.5, 30, 40, 60, 0.5, 2])

    def new(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def value(self, columns: Sequence[str]) -> str:
        """An expression of one number per event."""
        one, other = self.random.choice(columns), self.random.choice(columns)
        number = self.number()
        return self.random.choice(
            [
                f"{one} * {number}",
                f"{one} + {other}",
                f"sqrt(abs({one} - {number}))",
                f"sum(Muon_pt[Muon_pt > {number}])",
                f"count_nonzero(Muon_pt > {number})",
                "first(Muon_pt, default=0)",
                f"{one} * LUMI",
                f"{one} * dataset_xsec",
                f"bent({one})",
                f"1 +\nbent({one})",
                f"where({one} > {number}, {other}, {number} * 1.0)",
            ]
        )

    def condition(self, columns: Sequence[str]) -> str:
        one, other = self.random.choice(columns), self.random.choice(columns)
        number = self.number()
        return self.random.choice(
            [
                f"{one} > {number / 4}",
                f"{one} > {number / 4} || {other} < {number}",
                "HLT",
                "nMuon >= 1",
                f"any(Muon_pt > {number})",
                f"dataset_eventtype == 'mc' || {one} > {number / 4}",
                f"{one} * LUMI > {number}",
            ]
        )

    def selection(self, columns: Sequence[str]) -> Any:
        found: list[Any] = [self.condition(columns) for _ in range(self.random.randint(1, 2))]
        if self.random.random() < 0.3:
            found.append({"Any": [self.condition(columns), self.condition(columns)]})
        return found

    def inputs(self) -> list[str]:
        """Stages whose events a new one takes; none: those of the files."""
        there = [stage for stage in self.columns if stage]
        if not there or self.random.random() < 0.1:
            return []
        last = there[-3:]
        if len(there) > 2 and self.random.random() < 0.15:
            return self.random.sample(last, 2)
        return [self.random.choice(last)]

    def add(self, kind: str) -> None:
        needs = self.inputs()
        columns = list(dict.fromkeys(name for need in needs or [""] for name in self.columns[need]))
        name = self.new(kind.capitalize())
        stage: Flow = {"id": name, "needs": needs, **getattr(self, f"_{kind}")(columns)}
        added = stage.pop("adds", [])
        if "render" in stage or stage["op"] in ("own.total", "hep.selection.cutflow"):
            stage["render"] = []
        if self.random.random() < 0.1:
            stage["applies_to"] = {"datasets": self.random.sample(["a", "b", "c"], 2)}
            added = []
        if self.random.random() < 0.1:
            stage["execution"] = {"pool": "other"}
        if stage["op"] in ("own.mean", "own.spread"):
            stage["render"] = []
            self.means.append(name)
        else:
            self.columns[name] = [*columns, *added]
        self.stages.append(stage)

    def _define(self, columns: list[str]) -> Flow:
        one, other = self.new("v"), self.new("v")
        variables: dict[str, Any] = {one: self.value(columns), other: self.value([*columns, one])}
        if self.random.random() < 0.3:
            variables[other] = {"reduce": {"op": "sum", "over": f"Muon_pt * {self.number()}"}}
        if self.random.random() < 0.2:
            variables[one] = {"expr": self.value(columns), "dtype": "float32"}
        return {"op": "hep.define", "params": {"variables": variables}, "adds": [one, other]}

    def _select(self, columns: list[str]) -> Flow:
        return {"op": self.random.choice(["hep.select", "filter"]), "params": {"selection": self.selection(columns)}}

    def _cutflow(self, columns: list[str]) -> Flow:
        first = [{"label": "first", "expr": self.condition(columns)}, self.condition(columns)]
        groups: Flow = {"A": first, "B": {"steps": [self.condition(columns)], "parents": ["A"]}}
        params: Flow = {"selection": groups, "filter": self.random.choice(["all", "any", "none"])}
        if self.random.random() < 0.5:
            params["weight"] = self.value(columns)
        return {"op": "hep.selection.cutflow", "params": params}

    def _axis(self, name: str, columns: list[str]) -> Flow:
        source = self.random.choice([*columns, *LISTS, self.value(columns)])
        common = {"name": name, "label": self.random.choice(["one", "two"])}
        return self.random.choice(
            [
                {**common, "type": "regular", "source": source, "bins": {"nbins": 5, "low": 0, "high": 100}},
                {**common, "type": "variable", "source": source, "bins": [0, 5, 10.5, 50]},
                {**common, "type": "integer", "source": "nMuon", "bins": {"low": 0, "high": 4}},
                {**common, "type": "boolean", "source": "HLT"},
                {**common, "type": "category", "source": "nMuon"},
            ]
        )

    def _hist(self, columns: list[str]) -> Flow:
        lists = self.random.random() < 0.2
        axes = [self._axis("x", columns)]
        if not lists and self.random.random() < 0.3:
            axes.append(
                {"name": "y", "type": "regular", "source": "MET_pt", "bins": {"nbins": 3, "low": 0, "high": 60}}
            )
        params: Flow = {"axes": axes}
        if self.random.random() < 0.6:
            params["dataset_axis"] = True
        if self.random.random() < 0.6:
            params["weight"] = self.random.choice([self.value(columns), "dataset_xsec", "EventWeight"])
        if self.random.random() < 0.2:
            weights = {"nominal": "EventWeight", "up": self.value(columns)}
            params["variations"] = {"weights": weights, "apply_to": {"eventtype": "mc"}}
        return {"op": "hep.hist", "params": params, "render": []}

    def _score(self, columns: list[str]) -> Flow:
        out = self.new("s")
        params: Flow = {"column": self.random.choice(columns), "out": out}
        if self.random.random() < 0.5:
            params["by"] = float(self.number())
        return {"op": "own.score", "params": params, "adds": [out]}

    def _table(self, _: list[str]) -> Flow:
        out = self.new("t")
        return {"op": "own.table", "params": {"out": out}, "adds": [out]}

    def _looks(self, _: list[str]) -> Flow:
        out = self.new("l")
        return {"op": "own.looks", "params": {"out": out}, "adds": [out]}

    def _passes(self, columns: list[str]) -> Flow:
        return {"op": "own.passes", "params": {"column": self.random.choice(columns), "above": 1.0}}

    def _total(self, columns: list[str]) -> Flow:
        return {"op": "own.total", "params": {"column": self.random.choice(columns)}}

    def _mean(self, columns: list[str]) -> Flow:
        return {"op": "own.mean", "params": {"column": self.random.choice(columns)}}

    def _spread(self, columns: list[str]) -> Flow:
        return {"op": "own.spread", "params": {"column": self.random.choice(columns)}}

    def _join(self, _: list[str]) -> Flow:
        out = self.new("j")
        params = {"file": "lines.csv", "on": {"nMuon": "number"}, "columns": ["line"], "default": 0.0}
        variables = {out: "line * 2"}
        self.stages.append({"id": f"Join{out}", "needs": [], "op": "join", "params": params})
        self.columns[f"Join{out}"] = list(FIELDS)
        needs = [f"Join{out}"]
        return {"op": "hep.define", "needs": needs, "params": {"variables": variables}, "adds": [out]}

    def _skim(self, columns: list[str]) -> Flow:
        writes: Flow = {
            "kind": self.random.choice(["parquet", "own.lines", "own.lines"]),
            "keep": self.random.sample(columns, 2) + self.random.choice([[], ["Muon_pt"]]),
        }
        if writes["kind"] == "parquet":
            writes["when"] = self.random.choice(["partition", "dataset", "final"])
        made = self.random.choice([self._select, self._define, self._hist])(columns)
        return {**made, "write": writes}

    def centre(self) -> None:
        """Let a stage use the product of one that saw all the events."""
        stage = self.random.choice(self.means)
        out, name = self.new("c"), self.new("Centred")
        needs = [*self.inputs()[:1], stage]
        params = {"column": "MET_pt", "out": out, "stage": stage}
        self.stages.append({"id": name, "op": "own.centred", "needs": needs, "params": params})
        before = needs[0] if needs[0] in self.columns else ""
        self.columns[name] = [*self.columns[before], out]


def random_study(random: Random, pool: Sequence[Path]) -> Study:
    """A study with three datasets, whose files are copies of some of the pool."""
    maker = Maker(random)
    for _ in range(random.randint(5, 11)):
        maker.add(random.choices(list(KINDS), list(KINDS.values()))[0])
        if maker.means and random.random() < 0.2:
            maker.centre()
    maker.add("hist")
    data = {f"{name}{number}.root": random.choice(pool) for name in "abc" for number in range(random.randint(1, 2))}
    datasets = [
        {"name": "a", "eventtype": "mc", "files": ["a*.root"], "metadata": {"xsec": 2.0}},
        {"name": "b", "eventtype": "mc", "files": ["b*.root"], "metadata": {"xsec": 3.0}},
        {"name": "c", "eventtype": "data", "files": ["c*.root"], "metadata": {"xsec": 1.0}},
    ]
    source: Flow = {"kind": "root_tree", "missing_branches": "default"}
    if random.random() < 0.5:
        source["chunk_size"] = random.choice([20, 35])
    flow: Flow = {
        "plugins": ["ops.py", "looks.py", "sinks.py"],
        "registry": {"functions": {"bent": "bending:bent"}},
        "data": {"datasets": datasets},
        "sources": {"events": source},
        "analysis": {"globals": {"LUMI": 1.5, "OTHER": 1}, "stages": maker.stages},
        "execution": {"pools": {"default": {"workers": 1}, "other": {"workers": 1}}},
    }
    if random.random() < 0.4:
        flow["systematics"] = systematics(random)
    return Study(flow, data=data)


def systematics(random: Random) -> Flow:
    """Variations of all kinds that a study may have."""
    known: list[Flow] = [
        {"name": "met", "applies_to": "mc", "replace": {"MET_pt": "EventWeight"}},
        {"name": "weight", "applies_to": "mc", "weight": {"multiply": f"1 + {random.choice([0.5, 0.25])} * nMuon"}},
        {"name": "other", "datasets": {"replace": {"a": "b"}}},
    ]
    return {"variations": random.sample(known, random.randint(1, 2)), "cutflows": random.random() < 0.5}
