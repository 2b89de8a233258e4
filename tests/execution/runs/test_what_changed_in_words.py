"""Why something runs again is said as a person would say it, nearest cause first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cenote.analysis.operations.define import Define
from cenote.analysis.operations.filter import Filter
from cenote.analysis.operations.hep.hist.operation import Hist
from cenote.analysis.operations.hep.selection.cutflow import SelectionCutflow
from cenote.analysis.operations.interface import Operation
from cenote.engine.messages import WhyRow
from cenote.execution.runs.changed.ingredients import (
    NOT_THERE,
    UNKNOWN,
    Ingredients,
    StageIngredients,
    changes,
    new_files,
    why_rows,
    write_ingredients,
)
from cenote.execution.runs.changed.settings import changed_settings
from cenote.execution.runs.follow import read_if_whole
from cenote.language.plugins.own_files import functions_of

replace = msgspec.structs.replace


def dumped(operation: type[Operation], **params: Any) -> Any:
    return operation.model_validate(params).model_dump(mode="json", by_alias=True)


def said(before: Any, after: Any) -> list[str]:
    return list(changed_settings(before, after))


def cuts(*cuts: Any) -> Any:
    return dumped(Filter, selection=list(cuts))


def flow(**stages: Any) -> Any:
    return dumped(SelectionCutflow, selection=stages)


# Settings


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["pt > 20"], ["pt > 25"], ['cut changed, "pt > 20" → "pt > 25"']),
        (["pt > 20"], ["pt > 20", "abs(eta) < 2.4"], ['cut added, "abs(eta) < 2.4"']),
        (["pt > 20", "a", "b"], ["pt > 20", "b"], ['cut removed, "a"']),
        (["a", "b"], ["b", "a"], ["order of cuts changed"]),
        (["a", "b"], ["c", "b", "d"], ['cut changed, "a" → "c"', 'cut added, "d"']),
        (
            [{"reduce": {"op": "any", "over": "pt > 20"}}],
            [{"reduce": {"op": "any", "over": "pt > 25"}}],
            ['cut changed, "any(pt > 20)" → "any(pt > 25)"'],
        ),
        ([{"Any": ["a", "b"]}], [{"Any": ["a", "c"]}], ['cut changed, "any(a, b)" → "any(a, c)"']),
    ],
)
def test_cuts_are_said_by_what_they_ask(before: Any, after: Any, words: list[str]) -> None:
    assert said(cuts(*before), cuts(*after)) == words


def test_a_label_of_a_cut_says_nothing() -> None:
    assert said(cuts({"expr": "a", "label": "one"}), cuts({"expr": "a", "label": "two"})) == []


def test_cuts_of_a_cutflow_name_their_group() -> None:
    assert said(flow(All=["pt > 20"]), flow(All=["pt > 25"])) == ['cut changed, "pt > 20" → "pt > 25"']
    assert said(flow(All=["a"], Tight=["b"]), flow(All=["a"], Tight=["c"])) == ['cut of Tight changed, "b" → "c"']
    assert said(flow(All=["a"]), flow(All=["a"], Tight=["b"])) == [
        'group of cuts Tight added, {steps: ["b"], parents: []}'
    ]
    branches = flow(All=["a"], B={"steps": ["b"], "parents": ["All"]}), flow(All=["a"], B=["b"])
    assert said(*branches) == ['selection.B.parents without "All"']


def test_settings_are_said_by_their_key_and_both_values() -> None:
    def hist(nbins: int, **more: Any) -> Any:
        axes = [{"name": "mass", "source": "m", "bins": {"nbins": nbins, "low": 60, "high": 120}}]
        return dumped(Hist, axes=axes, **more)

    assert said(hist(60), hist(50)) == ["axes.mass.bins.nbins changed, 60 → 50"]
    assert said(hist(60), hist(60, weight_expr="w")) == ['weight_expr added, "w"']
    assert said(hist(60, weight_expr="w"), hist(60)) == ['weight_expr removed, was "w"']
    assert said({"keep": ["pt", "eta"]}, {"keep": ["pt", "eta", "phi"]}) == ['keep with "phi"']
    assert said({"keep": ["pt", "eta"]}, {"keep": ["eta", "pt"]}) == ["order of keep changed"]
    assert said({"overflow": True}, {"overflow": False}) == ["overflow changed, true → false"]


def test_an_expression_is_said_by_its_column() -> None:
    one, other = dumped(Define, variables={"twice": "pt * 2"}), dumped(Define, variables={"twice": "pt * 3"})
    assert said(one, other) == ['column twice changed, "pt * 2" → "pt * 3"']
    both = dumped(Define, variables={"twice": "pt * 2", "half": "pt / 2"})
    assert said(one, both) == ['column half added, "pt / 2"']


def test_long_texts_are_said_by_what_differs() -> None:
    begin, end = " && ".join(f"x{n} > {n}" for n in range(30)), " && ".join(f"y{n} > {n}" for n in range(30))
    [words] = said(cuts(f"{begin} && pt > 20 && {end}"), cuts(f"{begin} && pt > 25 && {end}"))
    assert words == 'cut changed, "… 29 && pt > 20 && y0 > 0 && …" → "… 29 && pt > 25 && y0 > 0 && …"'
    [words] = said({"edges": list(range(500))}, {"edges": list(range(400))})
    assert len(words) < 200


def test_mappings_whose_order_counts_may_be_lists_of_pairs() -> None:
    def paired(cut: str, **more: Any) -> Any:
        step = {"expr": cut, "reduce": None, "all_of": None, "any_of": None, "label": None}
        either = {"expr": None, "reduce": None, "all_of": None, "any_of": [step, {**step, "expr": "b"}], "label": None}
        return {"selection": [["All", {"steps": [step, either], "parents": []}]], **more}

    assert said(paired("pt > 20"), paired("pt > 25")) == [
        'cut changed, "pt > 20" → "pt > 25"',
        'cut changed, "any(pt > 20, b)" → "any(pt > 25, b)"',
    ]
    assert said({"derived": []}, {"derived": [["twice", "pt * 2"]]}) == ['derived.twice added, "pt * 2"']
    assert said({"derived": [["twice", "pt * 2"]]}, {"derived": []}) == ['derived.twice removed, was "pt * 2"']


# Stages


def stage(op: str = "filter", lineage: str = "1", **more: Any) -> StageIngredients:
    return StageIngredients(op, lineage={"data": lineage, "ttbar": lineage}, **more)


def run(**stages: StageIngredients) -> Ingredients:
    return Ingredients(software={"numpy": "2.4"}, sources={"events": {"tree": "Events"}}, stages=stages)


def chain(cut: str, *, lineage: str, bins: int = 60) -> Ingredients:
    return run(
        Select=stage(settings=cuts(cut), lineage=lineage, needs=("read.events",)),
        Pair=stage("custom.pair", lineage=lineage, needs=("Select",)),
        Mass=stage("hep.hist", lineage=lineage, settings={"nbins": bins}, needs=("Pair",)),
    )


CUT = 'Select: cut changed, "pt > 20" → "pt > 25"'


def test_a_change_is_said_of_every_stage_that_it_reaches() -> None:
    found = changes(chain("pt > 20", lineage="1"), chain("pt > 25", lineage="2"))
    assert found == {"Select": (CUT,), "Pair": (CUT,), "Mass": (CUT,)}


def test_the_own_change_of_a_stage_is_the_nearest() -> None:
    found = changes(chain("pt > 20", lineage="1"), chain("pt > 25", lineage="2", bins=50))
    assert found["Mass"] == ("Mass: nbins changed, 60 → 50",)
    assert found["Pair"] == (CUT,)


def test_nothing_is_said_of_what_is_the_same() -> None:
    same = chain("pt > 20", lineage="1")
    assert changes(same, same) == {}
    assert changes(same, replace(same, software={"numpy": "2.5"})) == {}  # it counts for no identity


def test_a_stage_whose_results_stayed_is_no_cause() -> None:
    before = run(Side=stage(settings={"a": 1}), Mass=stage("hep.hist", needs=("Side",), settings={"b": 1}))
    after = run(
        Side=stage(settings={"a": 2}),  # what it hands on is the same, its identity says
        Mass=stage("hep.hist", needs=("Side",), settings={"b": 1}, lineage="2"),
    )
    assert changes(before, after) == {"Mass": (UNKNOWN,)}


def test_a_change_reaches_far_in_long_chains_and_by_two_ways() -> None:
    def long(cut: str, lineage: str) -> Ingredients:
        stages = {"S0": stage(settings=cuts(cut), lineage=lineage), "S1": stage(needs=("S0",), lineage=lineage)}
        for number in range(2, 3000):
            needs = (f"S{number - 2}", f"S{number - 1}")
            stages[f"S{number}"] = stage(needs=needs, lineage=lineage)
        return run(**dict(reversed(stages.items())))

    found = changes(long("pt > 20", "1"), long("pt > 25", "2"))
    assert set(found.values()) == {('S0: cut changed, "pt > 20" → "pt > 25"',)}
    assert len(found) == 3000


def test_another_operation_is_said_instead_of_its_settings() -> None:
    after = run(S=stage("hep.select", lineage="2", settings={"other": 1}))
    assert changes(run(S=stage(settings=cuts("a"))), after) == {"S": ("S: op changed, filter → hep.select",)}


def test_a_stage_that_is_new_renamed_or_gone() -> None:
    old, new = stage(settings=cuts("a")), stage(settings=cuts("b"), lineage="2")
    mass = stage("hep.hist", needs=("Select",))
    before = run(Select=old, Mass=mass)
    added = run(Select=old, Clean=new, Mass=replace(mass, needs=("Select", "Clean"), lineage={"data": "2"}))
    assert changes(before, added) == {"Clean": ("Clean is new",), "Mass": ("Clean is new",)}
    assert changes(added, replace(before, stages=before.stages | {"Mass": replace(mass, lineage={"data": "3"})})) == {
        "Mass": ("Clean is gone",)
    }
    assert changes(before, run(Chosen=old, Mass=replace(mass, needs=("Chosen",)))) == {}
    named = run(
        Chosen=replace(old, lineage={"data": "2"}), Mass=replace(mass, needs=("Chosen",), lineage={"data": "2"})
    )
    assert changes(before, named) == {"Chosen": ("Chosen was called Select",), "Mass": ("Chosen was called Select",)}


def test_code_is_said_by_its_functions_files_and_packages() -> None:
    before_code = b"def scale(x):\n    return x * 2\n\ndef other(x):\n    return x\n"
    after_code = (
        b'"""Words."""\n\n# a comment\n\ndef scale(x):\n    return x * 3\n\ndef other(x):\n    "Does."\n    return x\n'
    )

    def using(code: bytes, lineage: str, *rows: tuple[str, ...]) -> Ingredients:
        made = run(S=stage("custom.pair", lineage=lineage, code=rows))
        return replace(made, functions={"/here/ops.py": functions_of(code), "/here/b.py": functions_of(code)})

    rows = ("operation", "f", "1"), ("from", "/here/ops.py"), ("software", "onnx", "1.2"), ("file", "c/sf.json", "1")
    more = ("operation", "f", "2"), ("from", "/here/ops.py"), ("software", "onnx", "1.3"), ("file", "c/sf.json", "2")
    assert changes(using(before_code, "1", *rows), using(after_code, "2", *more)) == {
        "S": ("ops.py: function scale changed (line 5)", "onnx 1.2 → 1.3", "S: sf.json changed")
    }
    settings = ("modifier", "retry", "1", ""), ("modifier", "retry", "2", "")
    assert changes(using(b"", "1", settings[0]), using(b"", "2", settings[1])) == {
        "S": ("S: settings of modifier retry changed",)
    }
    assert changes(using(b"", "1"), using(b"", "2", settings[0])) == {"S": ("S: modifier retry added",)}
    resource = using(b"", "1", ("operation", "", "1")), using(b"", "2", ("operation", "", "2"))
    assert changes(*resource) == {"S": ("something that own code imports or reads changed",)}


def test_a_variation_that_changed_like_its_stage_goes_by_its_name() -> None:
    def using(lineage: str, cut: str, other: str) -> Ingredients:
        mass = stage("hep.hist", needs=("Select", "Select@up"), lineage=lineage)
        parts = {"Select": stage(settings=cuts(cut), lineage=lineage)}
        parts["Select@up"] = stage(settings=cuts(other), lineage=lineage)
        return run(**parts, Mass=mass)

    words = 'Select: cut changed, "a" → "b"'
    assert changes(using("1", "a", "a"), using("2", "b", "b"))["Mass"] == (words,)
    assert changes(using("1", "a", "a"), using("2", "a", "b"))["Select@up"] == (words.replace("Select", "Select@up"),)


def test_variations_of_a_histogram_are_said_by_their_names() -> None:
    def filled(lineage: str, settings: str, **weights: str) -> Ingredients:
        fillings = [{"label": name, "weight": weight, "hist": None} for name, weight in weights.items()]
        sees = {name: {"fillings": fillings} for name in ("dy", "tt")}
        return run(H=StageIngredients("hep.hist", settings, sees=sees, lineage=dict.fromkeys(sees, lineage)))

    before = filled("1", "w", nominal="w", up="w * 2")
    (words,) = changes(before, filled("2", "w", nominal="w", up="w * 3"))["H"]
    assert words == 'weight of variation up of datasets dy, tt changed, "w * 2" → "w * 3"'
    (words,) = changes(before, filled("2", "w", nominal="w"))["H"]
    assert words.startswith("variation up of datasets dy, tt removed")
    (words,) = changes(before, filled("2", "v", nominal="v", up="v * 2"))["H"]
    assert "variation" not in words


def test_a_file_that_has_no_functions_changed_as_a_whole() -> None:
    def using(lineage: str, **files: dict[str, tuple[str, int]]) -> Ingredients:
        code = ("operation", "", lineage), ("from", *files)
        return replace(run(S=stage("custom.pair", lineage=lineage, code=code)), functions=files)

    values, read = functions_of(b"UP = 1.05\n"), {"": ("0a", 1)}
    after = functions_of(b"UP = 1.06\n"), {"": ("0b", 1)}
    before = using("1", constants=values, table=read)
    assert changes(before, using("2", constants=after[0], table=read)) == {"S": ("constants changed",)}
    assert changes(before, using("2", constants=values, table=after[1])) == {"S": ("table changed",)}


def test_functions_have_the_digest_of_what_they_say_and_their_line() -> None:
    source = b"""
import math

class Clamp(Base):
    low: float = 0
    @staticmethod
    def run(x):
        return x
LIMIT = 3
"""
    found = functions_of(source)
    assert {name: line for name, (_, line) in found.items()} == {"": 1, "class Clamp": 4, "Clamp.run": 7}
    other = functions_of(source.replace(b"low: float = 0", b"low: float = 1"))
    assert {name for name in found if found[name][0] != other[name][0]} == {"class Clamp"}
    other = functions_of(source.replace(b"LIMIT = 3", b"LIMIT = 4"))
    assert {name for name in found if found[name][0] != other[name][0]} == {""}
    assert functions_of(b"no python at all (") == functions_of(b"no python at all (")


def test_facts_and_constants_are_said_by_their_name() -> None:
    def seeing(lineage: str, lumi: float, **xsec: float) -> Ingredients:
        sees = {name: {"facts": {"dataset_xsec": one}, "constants": {"lumi": lumi}} for name, one in xsec.items()}
        return run(W=StageIngredients("define", sees=sees, lineage=dict.fromkeys(xsec, lineage)))

    assert changes(seeing("1", 35.9, ttbar=831, dy=2), seeing("2", 36.3, ttbar=831, dy=2)) == {
        "W": ("constant lumi changed, 35.9 → 36.3",)
    }
    assert changes(seeing("1", 1, ttbar=831, dy=2), seeing("2", 1, ttbar=833, dy=2)) == {
        "W": ("xsec of dataset ttbar changed, 831 → 833",)
    }
    assert changes(seeing("1", 1, ttbar=1, dy=1), seeing("2", 1, ttbar=2, dy=2)) == {
        "W": ("xsec of datasets ttbar, dy changed, 1 → 2",)
    }
    assert changes(seeing("1", 1, dy=2), seeing("1", 1, dy=2, ttbar=3)) == {"W": ("dataset ttbar is new",)}


def test_own_code_sees_whole_datasets_and_all_constants() -> None:
    def seeing(lineage: str, xsec: float, lumi: float, *names: str) -> Ingredients:
        dataset = [["name", "dy"], ["group", "Z"], ["metadata", [["xsec", xsec]]]]
        sees = {"dy": {"dataset": dataset, "datasets": list(names), "constants": [["lumi", lumi]]}}
        return run(W=StageIngredients("custom.w", sees=sees, lineage={"dy": lineage}))

    assert changes(seeing("1", 2, 1, "dy"), seeing("2", 3, 5, "dy", "ttbar")) == {
        "W": (
            "xsec of dataset dy changed, 2 → 3",
            "datasets changed: ttbar is new",
            "constant lumi changed, 1 → 5",
        )
    }


def test_sources_and_software_are_causes_of_all_that_they_reach() -> None:
    before = chain("a", lineage="1")
    tree = replace(chain("a", lineage="2"), sources={"events": {"tree": "events"}})
    words = 'source events: tree changed, "Events" → "events"'
    assert changes(before, tree) == dict.fromkeys(("Select", "Pair", "Mass"), (words,))
    numpy = replace(chain("a", lineage="2"), software={"numpy": "2.5"})
    assert changes(before, numpy) == dict.fromkeys(("Select", "Pair", "Mass"), ("numpy 2.4 → 2.5",))
    both = replace(chain("b", lineage="2"), software={"numpy": "2.5"})
    assert changes(before, both)["Mass"] == ('Select: cut changed, "a" → "b"', "numpy 2.4 → 2.5")
    named = replace(chain("a", lineage="2"), version=2)
    assert changes(before, named)["Mass"] == ("Cenote names results in another way now",)


# Files, rows, the record


def files(*found: tuple[str, str, int]) -> Ingredients:
    return replace(chain("a", lineage="1"), files={"data": tuple(found), "ttbar": ()})


def test_files_are_said_that_are_new_changed_or_gone_and_not_those_that_moved() -> None:
    before = files(("/d/a.root", "A", 10), ("/d/b.root", "B", 10), ("/d/c.root", "C", 10))
    after = files(("/e/a.root", "A", 10), ("/d/b.root", "B2", 10), ("/d/signal_9.root", "S", 10))
    assert new_files(before, after) == {"data": ("b.root changed", "signal_9.root is new", "c.root is gone")}
    copied = Ingredients(
        files={"data": (*before.files["data"], ("/elsewhere/copy.root", before.files["data"][0][1], 1))}
    )
    assert new_files(before, copied) == {"data": ("copy.root is new",)}
    assert new_files(copied, before) == {"data": ("copy.root is gone",)}
    assert new_files(before, before) == {}


def test_rows_say_how_many_tasks_run_and_why() -> None:
    before, after = files(("a.root", "A", 10)), files(("a.root", "A", 10), ("b.root", "B", 10))
    counts = {"Select": (1, 1), "Pair": (0, 2), "Mass": (1, 1)}
    assert why_rows(counts, before, after) == (
        WhyRow("Select", 1, 1, ("b.root is new",)),
        WhyRow("Mass", 1, 1, ("b.root is new",)),
    )
    assert why_rows(counts, None, after) == ()
    assert why_rows({"Mass": (2, 0)}, before, before) == (WhyRow("Mass", 2, 0, (NOT_THERE,)),)
    dropped = "its results were dropped to stay below 20 GB"
    assert why_rows({"Mass": (2, 0)}, before, before, otherwise={"Mass": (dropped,)})[0].causes == (dropped,)


def test_ingredients_come_back_from_their_file(tmp_path: Path) -> None:
    made = replace(
        files(("a.root", "A", 10)),
        functions={"ops.py": functions_of(b"def scale(x):\n    return x\n")},
        stages={
            "S": stage(
                settings={"edges": (1, 2.5), "names": {"b", "a", "c"}, "cuts": {1: "a"}}, code=(("operation", "", "1"),)
            )
        },
    )
    write_ingredients(tmp_path / "ingredients.json", made)
    found = read_if_whole(tmp_path / "ingredients.json", Ingredients)
    assert found is not None
    assert changes(found, replace(made, stages={"S": replace(made.stages["S"], lineage={"data": "2"})})) == {
        "S": (UNKNOWN,)
    }
