"""Workflows of every kind that FAST-HEP's users have: the same numbers in every way to run them, and by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
import yaml

import cenote
from builders.comparison.by_hand import ComparedWorkflow, Numbers, written
from builders.comparison.examples import EXAMPLES
from builders.comparison.generated import GENERATED
from builders.comparison.tutorials import DATASETS, HEAD, SAMPLES, WITH_FILES, write_samples
from cenote import api
from cenote.analysis.products.cutflow import Cutflow
from cenote.common.machine import this_machine

from ..conftest import DEEP

ELSEWHERE = ("column selection", "systematics", "trigger study", "exoplanets")
"""Those that run with four workers and on Dask each time: between them they have every kind of product. The others do
so with `make deep`."""
WORKFLOWS = {one.name: one for one in (*GENERATED, *WITH_FILES, *EXAMPLES)}


def numbers(run: cenote.Run) -> Numbers:
    """Everything that a run counted, summed and wrote, but for pictures."""
    assert run.status == "succeeded", str(run.failures)
    found: Numbers = {}
    for name in run.products:
        if name.endswith(":files"):
            found |= skim(run, name)
        elif isinstance(made := run.product(name), Cutflow):
            found |= {f"{name}/{row.dataset}/{row.name}": cut(row) for row in made.rows}
        else:
            found |= {"/".join((name, *which)): values for which, values in pieces(made)}
    return found


def cut(row: Any) -> Any:
    counts = (row.n_unweighted_in, row.n_unweighted_out)
    return np.array([*counts, row.sumw_in, row.sumw_out, row.sumw2_in, row.sumw2_out])


def pieces(histogram: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The histogram of each dataset and variation."""
    named = [axis for axis in histogram.axes if axis.name in ("dataset", "variation")]
    for which in product(*named):
        one = histogram[{axis.name: value for axis, value in zip(named, which, strict=True)}]
        values = one.values(flow=True)
        yield which, np.stack([values, one.variances(flow=True)]) if "Weight" in str(one.storage_type) else values


def skim(run: cenote.Run, name: str) -> Numbers:
    """The columns of each dataset, its files one after the other."""
    files: dict[str, list[Any]] = {}
    for entry in run.product(name):
        path = run.folder / "products" / entry["path"]
        if path.suffix == ".txt":
            rows = [line for line in path.read_text().splitlines() if line.startswith("|")]
            return {f"{name}/{entry['path']}": np.array([" ".join(row.replace("|", "").split()) for row in rows[1:]])}
        read = ak.from_parquet(path) if path.suffix == ".parquet" else uproot.open(path)["events"].arrays()
        files.setdefault(entry["dataset"], []).append(read)
    whole = {dataset: ak.concatenate(parts) for dataset, parts in files.items()}
    return {
        key: values
        for dataset, events in whole.items()
        for key, values in written(f"{name}/{dataset}", {column: events[column] for column in events.fields}).items()
    }


def bits(found: Numbers) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in found.items()}


def close(found: Numbers, expected: Numbers) -> None:
    """Counts are equal, sums of weights to the last bits."""
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        assert found[name].shape == values.shape, name
        if values.dtype.kind == "f" and values.size and not np.array_equal(values, np.round(values), equal_nan=True):
            np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=1e-12, err_msg=name)
        else:
            assert np.array_equal(found[name], values), name


def ran(
    folder: Path, workflow: ComparedWorkflow, way: str, *, chunk: int, pools: bool = False, **options: Any
) -> cenote.Run:
    """Run it as it is written but for the size of its chunks; pictures come from one way alone."""
    flow = yaml.safe_load(workflow.flow)
    for source in flow["sources"].values():
        source["chunk_size"] = chunk
    stages = flow["analysis"]["stages"]
    for stage in stages:
        if way != "alone":
            stage.pop("render", None)
        if stage["op"] == "hep.hist":
            stage.setdefault("render", [])
    if pools:
        flow["execution"] = {"backend": "dask", "pools": {"default": {"workers": 1}, "other": {"workers": 1}}}
        for stage in stages[1::2]:
            stage["execution"] = {"require": "other"}
    path = folder / f"{way}.yaml"
    path.write_text(yaml.safe_dump(flow, sort_keys=False))
    run = cenote.load(path).run(folder / way, **options)
    assert run.status == "succeeded", str(run.failures)
    return run


@pytest.fixture(params=WORKFLOWS)
def workflow(request: pytest.FixtureRequest, tmp_path: Path) -> ComparedWorkflow:
    """Each one, with its files in the folder of the test."""
    made = WORKFLOWS[request.param]
    made.write(tmp_path)
    for file, text in made.others.items():
        (tmp_path / file).write_text(text)
    return made


def test_numbers_are_equal_in_every_way_to_run_and_by_hand(
    workflow: ComparedWorkflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = workflow.chunks
    alone = ran(tmp_path, workflow, "alone", chunk=small, workers=1)
    assert len(alone.plots) == workflow.pictures
    found, expected = numbers(alone), workflow.calculate(tmp_path)
    close(found, expected)
    assert any(values.size and np.any(values != 0) for values in expected.values() if values.dtype.kind in "fiu")
    once = ran(tmp_path, workflow, "once", chunk=large, workers=1)
    assert once.summary["tasks"]["total"] < alone.summary["tasks"]["total"]
    close(numbers(once), expected)
    if DEEP or workflow.name in ELSEWHERE:
        monkeypatch.setattr(api, "this_machine", lambda: replace(this_machine(), cpus=4))
        four = ran(tmp_path, workflow, "four", chunk=small, workers=4)
        assert bits(numbers(four)) == bits(found)
        pools = ran(tmp_path, workflow, "pools", chunk=small, pools=True)
        assert {name for stage in pools.summary["stages"] for name in stage["pools"]} == {"default", "other"}
        assert bits(numbers(pools)) == bits(found)


LISTED = """
    branches: [NMuon, Muon_Px, EventWeight]
    stop: 300
observers:
  - {kind: hep.schema_snapshot, at: [read.events], out: schema}
"""


def test_data_without_an_analysis_are_looked_at(tmp_path: Path) -> None:
    """The tutorials on ROOT files and datasets: columns and their types, files and how many events they have."""
    write_samples(tmp_path)
    (tmp_path / "datasets.yaml").write_text(DATASETS)
    (tmp_path / "flow.yaml").write_text(HEAD + LISTED)
    loaded = cenote.load(tmp_path / "flow.yaml")
    assert loaded.run(tmp_path / "out", workers=1).status == "succeeded"
    (group,) = json.loads((tmp_path / "out/products/schema/read.events.json").read_text())["groups"]
    assert group["datasets"] == [*SAMPLES]
    types = {column["name"]: column["type"] for column in group["columns"]}
    assert (types["NMuon"], types["Muon_Px"], types["EventWeight"]) == ("int32_t", "float[]", "float")
    counts = {one.name: [file.entries for file in one.files] for one in loaded.check_data().datasets}
    assert counts == {name: [events] for name, events in SAMPLES.items()}
