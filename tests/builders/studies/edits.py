"""Edit studies at random, as people do in a day: settings, code, files, facts, software, how it runs."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from builders.studies.random_study import FIELDS, Maker, systematics
from builders.studies.study import FREE_GAPS, GAPS, Study

_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?")


@dataclass(frozen=True)
class Editor:
    """Edits at random."""

    random: Random
    pool: tuple[Path, ...]

    def edited(self, study: Study) -> tuple[str, Study, bool]:
        """The name of an edit, the study after it, and whether no number can depend on it."""
        name = self.random.choices(list(EDITS), list(EDITS.values()))[0]
        after = replace(study, flow=copy.deepcopy(study.flow), touched=frozenset())
        return name, getattr(self, name)(after), name in FREE

    def _texts(self, study: Study) -> list[tuple[MutableMapping[Any, Any] | list[Any], Any]]:
        """Every place of a text, or a number, among params: (what holds it, where there)."""
        return [place for stage in study.stages for place in _leaves(stage.get("params", {}))]

    def setting(self, study: Study) -> Study:
        """Another number somewhere."""
        places = [(at, key) for at, key in self._texts(study) if _NUMBER.search(str(at[key]))]
        at, key = self.random.choice(places)
        if isinstance(at[key], int | float) and not isinstance(at[key], bool):
            at[key] = type(at[key])(at[key] + self.random.choice([1, 2, 5]))
        elif isinstance(at[key], str):
            found = self.random.choice(list(_NUMBER.finditer(at[key])))
            number = str(round(float(found[0]) + self.random.choice([1, 0.5]), 2))
            at[key] = at[key][: found.start()] + number + at[key][found.end() :]
        return study

    def column(self, study: Study) -> Study:
        """Another column somewhere."""
        places = [(at, key) for at, key in self._texts(study) if any(name in str(at[key]) for name in FIELDS)]
        if places:
            at, key = self.random.choice(places)
            one, other = self.random.sample(FIELDS, 2)
            at[key] = re.sub(rf"\b{one}\b", other, str(at[key]))
        return study

    def spelling(self, study: Study) -> Study:
        """Spaces and brackets that mean nothing."""
        signs = r" ([-+*<>]|\|\||==) "
        places = [(at, key) for at, key in self._texts(study) if re.search(signs, str(at[key]))]
        if places:
            at, key = self.random.choice(places)
            at[key] = self.random.choice([f"({at[key]})", re.sub(signs, r"  \1 ", at[key])])
        return study

    def key_order(self, study: Study) -> Study:
        """Keys of a stage in another order."""
        stage = self.random.choice(study.stages)
        for place in (stage, *([stage["params"]] if self.random.random() < 0.5 else [])):
            items = list(place.items())
            self.random.shuffle(items)
            place.clear()
            place.update(items)
        return study

    def variable_order(self, study: Study) -> Study:
        """Variables in another order: later ones may have used earlier ones."""
        defining = [stage["params"]["variables"] for stage in study.stages if stage["op"] == "hep.define"]
        if defining:
            variables = self.random.choice(defining)
            items = list(variables.items())[::-1]
            variables.clear()
            variables.update(items)
        return study

    def label(self, study: Study) -> Study:
        """Another label."""
        places = [(at, key) for at, key in self._texts(study) if key == "label"]
        if places:
            at, key = self.random.choice(places)
            at[key] = self.random.choice(["one", "two", "three"])
        return study

    def code(self, study: Study) -> Study:
        """Own code that does something else."""
        gap = self.random.choice([name for name in GAPS if name not in FREE_GAPS])
        value: Any = self.random.choice(["+", "-", "*"]) if gap == "operator" else self.random.choice([1, 2, 2.0, 3.5])
        return replace(study, gaps={**study.gaps, gap: value})

    def words_in_code(self, study: Study) -> Study:
        """Comments and docstrings."""
        said = self.random.choice(["more", "less", "nothing"])
        comment, docstring = f"# {said}\n\n", self.random.choice(["", f'"""{said}"""  # {said}'])
        return replace(
            study,
            gaps={**study.gaps, "comment": comment, "docstring": docstring or "pass"} if docstring else study.gaps,
        )

    def function(self, study: Study) -> Study:
        """The function that expressions call."""
        return replace(study, bend=self.random.choice([0.5, 0.75, 2.0]))

    def table(self, study: Study) -> Study:
        """Tables that own code and operations read."""
        if self.random.random() < 0.5:
            return replace(study, table={**study.table, "scale": self.random.choice([1.25, 1.5, 2.0])})
        return replace(study, lines={**study.lines, self.random.randint(0, 3): self.random.choice([0.5, 1.0, 4.0])})

    def add_stage(self, study: Study) -> Study:
        """A histogram, or a cut, after some stage."""
        maker = Maker(self.random)
        maker.count = 1000 + self.random.randint(0, 9000)
        there = [stage["id"] for stage in study.stages if stage["op"] not in ("own.mean", "own.spread")]
        maker.columns |= {name: list(FIELDS) for name in there}
        maker.add(self.random.choice(["hist", "cutflow", "total", "define", "score"]))
        study.stages.insert(self.random.randint(0, len(study.stages)), maker.stages[0])
        return study

    def remove_stage(self, study: Study) -> Study:
        """A stage goes, and who needed it needs what it needed."""
        stage = self.random.choice(study.stages)
        study.stages.remove(stage)
        for other in study.stages:
            if stage["id"] in other["needs"]:
                needs = [*[one for one in other["needs"] if one != stage["id"]], *stage["needs"]]
                other["needs"] = list(dict.fromkeys(needs))
        return study

    def rename_stage(self, study: Study) -> Study:
        """Another id."""
        stage = self.random.choice(study.stages)
        old, new = stage["id"], f"{stage['id']}x"
        stage["id"] = new
        for other in study.stages:
            other["needs"] = [new if one == old else one for one in other["needs"]]
            if other["params"].get("stage") == old:
                other["params"]["stage"] = new
        return study

    def other_need(self, study: Study) -> Study:
        """A stage after another one."""
        places = [(n, stage) for n, stage in enumerate(study.stages) if n and stage["op"] != "own.centred"]
        number, stage = self.random.choice(places)
        before = [one["id"] for one in study.stages[:number] if one["op"] not in ("own.mean", "own.spread")]
        stage["needs"] = self.random.sample(before, min(len(before), self.random.choice([1, 1, 2])))
        return study

    def stage_order(self, study: Study) -> Study:
        """Stages written in another order."""
        self.random.shuffle(study.stages)
        return study

    def applies_to(self, study: Study) -> Study:
        """A stage is for other datasets."""
        stage = self.random.choice(study.stages)
        names = [dataset["name"] for dataset in study.datasets]
        stage["applies_to"] = {"datasets": self.random.sample(names, self.random.randint(1, len(names)))}
        return study

    def group(self, study: Study) -> Study:
        """What datasets are drawn as."""
        self.random.choice(study.datasets)["group"] = self.random.choice(["signal", "background"])
        return study

    def fact(self, study: Study) -> Study:
        """Facts of a dataset."""
        dataset = self.random.choice(study.datasets)
        what = self.random.choice(["xsec", "eventtype", "nevents"])
        if what == "xsec":
            dataset["metadata"] = {"xsec": self.random.choice([1.0, 2.0, 3.0, 4.5])}
        elif what == "eventtype":
            dataset["eventtype"] = self.random.choice(["mc", "data"])
        else:
            dataset["nevents"] = self.random.choice([100, 200])
        return study

    def dataset_order(self, study: Study) -> Study:
        """Datasets in another order."""
        self.random.shuffle(study.datasets)
        return study

    def rename_dataset(self, study: Study) -> Study:
        """Two datasets swap their names, with all they are."""
        one, other = self.random.sample(study.datasets, 2)
        one["name"], other["name"] = other["name"], one["name"]
        return study

    def constant(self, study: Study) -> Study:
        """A constant of the workflow."""
        study.flow["analysis"]["globals"][self.random.choice(["LUMI", "LUMI", "OTHER"])] = self.random.choice(
            [1.5, 2, 3]
        )
        return study

    def add_file(self, study: Study) -> Study:
        """A file more."""
        name = f"{self.random.choice('abc')}{self.random.randint(0, 3)}.root"
        return replace(study, data={**study.data, name: self.random.choice(self.pool)})

    def remove_file(self, study: Study) -> Study:
        """A file less."""
        return replace(study, data=_without(study.data, self.random.choice(list(study.data))))

    def swap_files(self, study: Study) -> Study:
        """Two files under each other's name."""
        one, other = self.random.choices(list(study.data), k=2)
        return replace(study, data={**study.data, one: study.data[other], other: study.data[one]})

    def copy_file(self, study: Study) -> Study:
        """The same file once more in its place."""
        return replace(study, touched=frozenset(self.random.sample(list(study.data), 1)))

    def move_stage(self, study: Study) -> Study:
        """Another pool."""
        stage = self.random.choice(study.stages)
        stage["execution"] = {"pool": self.random.choice(["default", "other"])}
        return study

    def cache(self, study: Study) -> Study:
        """Keep the events of a stage, or no longer."""
        stage = self.random.choice(study.stages)
        stage["execution"] = self.random.choice([{"modifiers": ["cache"]}, {}])
        return study

    def pools(self, study: Study) -> Study:
        """More workers."""
        study.flow["execution"]["pools"]["default"]["workers"] = self.random.randint(1, 4)
        return study

    def chunks(self, study: Study) -> Study:
        """Files cut otherwise."""
        source = study.flow["sources"]["events"]
        what = self.random.choice(["chunk_size", "start", "stop"])
        source[what] = {"chunk_size": [20, 35, 50], "start": [0, 5], "stop": [30, 60]}[what][self.random.randint(0, 1)]
        return study

    def version(self, study: Study) -> Study:
        """Other software."""
        name = self.random.choice(["numpy", "awkward", "boost-histogram", "hist"])
        return replace(study, software={**study.software, name: self.random.choice(["1.0", "2.0"])})

    def skim(self, study: Study) -> Study:
        """Other files that stages write."""
        stage = self.random.choice(study.stages)
        if stage["op"] in ("own.mean", "own.spread"):
            return study
        if "write" not in stage:
            stage["write"] = {"kind": "own.lines", "keep": ["MET_pt"]}
            return study
        what = self.random.choice(["keep", "kind", "when", "path", "write"])
        if what == "write":
            del stage["write"]
            return study
        choices: dict[str, list[Any]] = {
            "keep": [["MET_pt"], ["MET_pt", "nMuon"], ["nMuon", "MET_pt"]],
            "kind": ["parquet", "own.lines"],
            "when": ["partition", "dataset", "final"],
            "path": ["skims/{dataset}-{part}", "skims/{part}-{dataset}"],
        }
        stage["write"][what] = self.random.choice(choices[what])
        return study

    def variations(self, study: Study) -> Study:
        """Others, or none."""
        if self.random.random() < 0.3:
            study.flow.pop("systematics", None)
        else:
            study.flow["systematics"] = systematics(self.random)
        return study


EDITS: Mapping[str, int] = {
    "setting": 6, "column": 3, "spelling": 2, "key_order": 2, "variable_order": 1, "label": 1, "code": 4,
    "words_in_code": 1, "function": 2, "table": 2, "add_stage": 3, "remove_stage": 1, "rename_stage": 2,
    "other_need": 3,
    "stage_order": 1, "applies_to": 2, "group": 1, "fact": 4, "dataset_order": 1, "rename_dataset": 1, "constant": 2,
    "add_file": 2, "remove_file": 1, "swap_files": 2, "copy_file": 1, "move_stage": 2, "cache": 3, "pools": 1,
    "chunks": 1, "version": 1, "skim": 3, "variations": 2,
}  # fmt: skip
"""Edit → how often it comes."""
FREE = ("spelling", "label", "words_in_code", "copy_file", "pools", "stage_order")
"""Edits on which no number depends."""


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of plain data that holds no more places."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from _leaves(inner)
        else:
            yield value, key


def _without(data: Mapping[str, Path], name: str) -> dict[str, Path]:
    return {other: origin for other, origin in data.items() if other != name}
