"""`check` knows the types of columns: conditions that are lists or numbers are found before anything runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cenote
from cenote.planning.stages.condition_types import sample_column

COLUMNS = {
    "n": pa.array([1, 2], pa.int32()),
    "met": pa.array([10.0, 20.0], pa.float32()),
    "passes": pa.array([True, False]),
    "era": pa.array(["A", "B"]),
    "jets": pa.array([[1.0, 2.0], []], pa.list_(pa.float32())),
    "tags": pa.array([[True, False], []], pa.list_(pa.bool_())),
    "e": pa.array([{"x": 1.0}, {"x": 2.0}]),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))


def problems_of(folder: Path, *stages: str, plugins: str = "") -> list[str]:
    pq.write_table(pa.table(COLUMNS), folder / "events.parquet")
    if plugins:
        (folder / "ops.py").write_text(plugins, encoding="utf-8")
    flow = folder / "flow.yaml"
    flow.write_text(
        "data: {datasets: [{name: d, files: [events.parquet], xsec: 2.5}]}\nsources: {events: {kind: parquet}}\n"
        + ("plugins: ops.py\n" if plugins else "")
        + "analysis:\n  globals: {LIMIT: 3}\n  stages:\n"
        + "".join(f"  - {stage}\n" for stage in stages),
        encoding="utf-8",
    )
    return [problem.message for problem in cenote.load(flow).check().problems]


def selecting(condition: str) -> str:
    return f"{{id: S, op: filter, params: {{selection: '{condition}'}}}}"


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        ("n", "numbers (int32)"),
        ("met", "numbers (float32)"),
        ("max(jets)", "numbers (float32)"),
        ("where(passes, n, 0)", "numbers (int"),
        ("era", "text"),
        ("jets > LIMIT", "a list per event"),
        ("tags", "a list per event"),
        ("passes && tags", "a list per event"),
        ("!(jets > met)", "a list per event"),
        ("dataset_xsec", "one number for all events"),
    ],
)
def test_what_is_no_condition_is_told_before_the_run(tmp_path: Path, condition: str, given: str) -> None:
    [problem] = problems_of(tmp_path, selecting(condition))
    assert problem.startswith(f"stage 'S': '{condition}' gives {given}")


@pytest.mark.parametrize(
    "condition",
    [
        "passes",
        "n > 1",
        "passes && n",
        "any(tags)",
        "(n & 4) != 0 && passes",
        "all(jets > met)",
        'era == "A"',
        "max(jets) > LIMIT",
        "first(tags)",
        "jets[:, 5] > 1",
        "count_nonzero(jets > 3) >= 2",
        "dataset_xsec > 2",
        "passes * (n > 1)",
        "any(pairs(jets, 0) > pairs(jets, 1))",
        "true",
    ],
)
def test_what_is_a_condition_is_accepted(tmp_path: Path, condition: str) -> None:
    assert problems_of(tmp_path, selecting(condition)) == []


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("passes & n", "'&' joins a condition with numbers"),
        ("(met & 4) > 0", "'&' takes conditions or the bits of whole numbers, and here are fractions"),
        ("met << 1 > 4", "'<<' takes conditions or the bits of whole numbers"),
        ("era > 3", "numbers are compared with text"),
        ("era + n > 3", "text stands where numbers are needed"),
        ("sum(met) > 3", "sum(…) goes over the elements of each event, but there is one value per event"),
        ("first(met) > 3", "a function of lists stands over one value per event"),
        ("num(n) > 3", "num(…) counts the elements"),
        ("any(jets[passes])", "x[condition] picks elements within events"),
        ("max_by(met, n) > 1", "max_by(…) takes the elements of each event"),
    ],
)
def test_what_these_types_never_allow_is_told_before_the_run(tmp_path: Path, condition: str, why: str) -> None:
    [problem] = problems_of(tmp_path, selecting(condition))
    assert problem.startswith(f"stage 'S': '{condition}' cannot be evaluated: ")
    assert why in problem


def test_types_go_through_stages_that_define_columns(tmp_path: Path) -> None:
    define = "{id: D, op: define, params: {lead: first(jets), hard: jets > 5, both: hard & tags, many: lead > 3}}"
    flag = "{id: F, op: hep.selection.flag, params: {selection: many}}"
    assert problems_of(tmp_path, define, flag, selecting("F && any(both)")) == []
    [problem] = problems_of(tmp_path, define, flag, selecting("F && both"))
    assert problem.startswith("stage 'S': 'F && both' gives a list per event")
    [problem] = problems_of(tmp_path, define, flag, selecting("lead"))
    assert problem.startswith("stage 'S': 'lead' gives numbers (float32)")


def test_a_column_of_somebodys_code_may_be_anything(tmp_path: Path) -> None:
    own = """
from cenote import operation

@operation("custom.pi", reads=["met"], adds=["pi", "good"])
def pi(events):
    raise RuntimeError("called while planning")
"""
    use = "{id: P, op: custom.pi}"
    assert problems_of(tmp_path, use, selecting("pi"), plugins=own) == []
    later = "{id: D, op: define, params: {worse: 'good', list: 'jets > pi', n2: 'n + 1'}}"
    assert problems_of(tmp_path, use, later, selecting("worse && list"), plugins=own) == []
    [problem] = problems_of(tmp_path, use, later, selecting("n2"), plugins=own)
    assert "'n2' gives numbers" in problem


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("bool", np.ones(1, "b1")),
        ("uint8_t", np.ones(1, "u1")),
        ("float[]", np.ones((1, 1), "f4")),
        ("double[][3]", np.ones((1, 1, 1), "f8")),
        ("std::vector<int32_t>", np.ones((1, 1), "i4")),
        ("std::vector<std::vector<float>>", np.ones((1, 1, 1), "f4")),
        ("std::int64_t[]", np.ones((1, 1), "i8")),
        ("list<element: float>", np.ones((1, 1), "f4")),
        ("large_list<item: list<item: bool>>", np.ones((1, 1, 1), "b1")),
        ("var * ?float64", np.ones((1, 1), "f8")),
        ("std::string", np.ones(1, "U1")),
        ("struct<x: double>", None),
        ("TLorentzVector", None),
        ("Muon.pt", None),
        ("object", None),
    ],
)
def test_types_are_known_as_formats_word_them(written: str, meant: np.ndarray | None) -> None:
    made = sample_column(written)
    if meant is None:
        assert made is None
    else:
        assert made is not None
        assert (made.dtype, made.shape) == (meant.dtype, meant.shape)
