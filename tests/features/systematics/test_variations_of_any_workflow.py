"""Whatever the stages are, a variation gives what the same workflow gives that begins with its columns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cenote

from ..conftest import DEEP

DATASETS = {"one": "mc", "two": "mc", "real": "data"}
EVENTS = 30
COLUMNS = ("x", "y", "z", "w")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("any")
    numbers = np.random.default_rng(7)
    for name in DATASETS:
        columns = {column: numbers.uniform(0, 2, EVENTS) for column in (*COLUMNS, "x_up", "y_up")}
        pq.write_table(pa.table(columns), made / f"{name}.parquet")
    return made


@st.composite
def stages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Definitions and selections that read any column, each after any of those before, and a histogram at the end."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 6))):
        column, other = draw(st.sampled_from(COLUMNS)), draw(st.sampled_from(COLUMNS))
        kind = draw(st.sampled_from(["define", "define", "filter", "cutflow", "project"]))
        op, params = {
            "define": ("define", {column: f"{column} * 0.5 + {other}"}),
            "filter": ("filter", {"expr": f"{column} + {other} > 0.7"}),
            "cutflow": ("hep.selection.cutflow", {"selection": [f"{column} > 0.2"], "filter": "none"}),
            "project": ("project", {"keep": ["*"]}),
        }[kind]
        needs = [draw(st.sampled_from(found))["id"]] if found and draw(st.integers(0, 3)) == 0 else None
        stage: dict[str, Any] = {"id": f"s{number}", "op": op, "params": params}
        if needs:
            stage["needs"] = needs
        if draw(st.integers(0, 3)) == 0:
            stage["applies_to"] = {"datasets": draw(st.sampled_from([["one"], ["two"], ["one", "real"]]))}
        found.append(stage)
        if draw(st.integers(0, 2)) == 0:
            found.append(histogram(f"h{number}", draw(st.sampled_from(COLUMNS))))
    return [*found, histogram("last", draw(st.sampled_from(COLUMNS)))]


def histogram(name: str, column: str) -> dict[str, Any]:
    axes = [{"name": "v", "type": "regular", "source": column, "bins": [8, 0, 4]}]
    return {"id": name, "op": "hep.hist", "params": {"weight_expr": "w", "axes": axes}, "render": []}


def filtered_in_one_dataset(column: str) -> list[dict[str, Any]]:
    """A cut on what varies that one dataset alone has, and a column made of it in all of them."""
    return [
        {"id": "Scale", "op": "define", "params": {"x": "x * 0.5"}},
        {"id": "Cut", "op": "filter", "params": {"expr": "x > 0.35"}, "applies_to": {"datasets": ["one"]}},
        {"id": "Sum", "op": "define", "params": {column: "x + y"}},
        histogram("last", column),
    ]


def found_by(folder: Path, flow: dict[str, Any], out: Path) -> dict[str, Any]:
    data = [
        {"name": name, "files": str(folder / f"{name}.parquet"), "eventtype": kind} for name, kind in DATASETS.items()
    ]
    whole = {"data": {"datasets": data}, "sources": {"events": {"kind": "parquet"}}, **flow}
    out.mkdir()
    (out / "flow.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
    run = cenote.load(out / "flow.yaml").run(out / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    return {stage["id"]: run.product(stage["id"]) for stage in flow["analysis"]["stages"] if stage["op"] == "hep.hist"}


@settings(max_examples=60 if DEEP else 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(written=filtered_in_one_dataset("x"), replace={"x": "x_up"})
@example(written=filtered_in_one_dataset("x"), replace={"x": "x_up", "w": "y_up"})
@given(written=stages(), replace=st.sampled_from([{"x": "x_up"}, {"y": "y_up"}, {"x": "x_up", "w": "y_up"}]))
def test_a_variation_is_the_workflow_that_begins_with_its_columns(
    folder: Path, written: list[dict[str, Any]], replace: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        varied = {"name": "v", "replace": replace, "applies_to": "mc"}
        flow = {"analysis": {"stages": written}, "systematics": {"variations": [varied]}}
        together = found_by(folder, flow, Path(scratch) / "together")
        first = {"id": "first", "op": "define", "params": replace, "applies_to": {"eventtype": "mc"}}
        after = [{"needs": ["first"], **written[0]}, *written[1:]]
        alone = found_by(folder, {"analysis": {"stages": [first, *after]}}, Path(scratch) / "alone")
        plain = found_by(folder, {"analysis": {"stages": written}}, Path(scratch) / "plain")
    for name, product in together.items():
        varies = "variation" in [axis.name for axis in product.axes]
        nominal, moved = (product[{"variation": one}] if varies else product for one in ("nominal", "v"))
        if not varies:
            assert alone[name] == plain[name], name
        assert nominal.view(flow=True).tobytes() == plain[name].view(flow=True).tobytes(), name
        assert moved.view(flow=True).tobytes() == alone[name].view(flow=True).tobytes(), name


@pytest.mark.parametrize("column", ["x", "sum"])
def test_a_variation_changes_the_cut_of_one_dataset_and_a_column_of_all(
    folder: Path, tmp_path: Path, column: str
) -> None:
    varied = {"name": "up", "replace": {"x": "x_up"}, "applies_to": "mc"}
    flow = {"analysis": {"stages": filtered_in_one_dataset(column)}, "systematics": {"variations": [varied]}}
    product = found_by(folder, flow, tmp_path / "flow")["last"]
    for variation, read in {"nominal": "x", "up": "x_up"}.items():
        expected = np.zeros(8)
        for name, kind in DATASETS.items():
            table = pq.read_table(folder / f"{name}.parquet")
            events = {one: table[one].to_numpy() for one in table.column_names}
            scaled = events[read if kind == "mc" else "x"] * 0.5
            kept = scaled > (0.35 if name == "one" else 0)
            sums, weights = (scaled + events["y"])[kept], events["w"][kept]
            expected += np.histogram(sums, bins=8, range=(0, 4), weights=weights)[0]
        assert product[{"variation": variation}].values() == pytest.approx(expected), variation
