"""Read what each contender found, and say where two of them differ."""

from __future__ import annotations

import csv
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rounds import histogram

HISTOGRAMS = ("met", "jet_pt", "mass")


@dataclass(frozen=True)
class Result:
    """Histograms by name (values and variances with under- and overflow), and the cutflow by label."""

    histograms: dict[str, tuple[list[float], list[float]]]
    cutflow: dict[str, tuple[float, float]]
    """Events and sum of weights after each cut."""


def of_json(folder: Path) -> Result:
    """As handwritten.py saves it."""
    found = json.loads((folder / "result.json").read_text())
    histograms = {name: (one["values"], one["variances"]) for name, one in found["histograms"].items()}
    cuts = {label: (n, sumw) for label, (n, sumw) in found["cutflow"].items() if label != "all"}
    return Result(histograms, cuts)


def of_cenote(folder: Path) -> Result:
    """From the run's products: UHI JSON and a table."""
    products = folder / "out" / "products"
    stored = {name: histogram(folder, name) for name in HISTOGRAMS}
    with (products / "two_muons.csv").open() as table:
        rows = {row["cut"]: (float(row["n_unweighted_out"]), float(row["sumw_out"])) for row in csv.DictReader(table)}
    return Result({name: (one["values"], one["variances"]) for name, one in stored.items()}, rows)


def of_fasthep(folder: Path) -> Result:
    """From the run's artifacts: pickled histograms and JSON."""
    artifacts = folder / "out" / "artifacts"
    histograms: dict[str, tuple[list[float], list[float]]] = {}
    for name in HISTOGRAMS:
        one: Any = pickle.loads((artifacts / "histograms" / f"{name}.pkl").read_bytes())
        histograms[name] = (one.values(flow=True).tolist(), one.variances(flow=True).tolist())
    nodes = json.loads((artifacts / "cutflows" / "two_muons.json").read_text())["nodes"]
    stats = {node["label"]: node["stats"]["mc"] for node in nodes}
    return Result(histograms, {cut: (float(s["n_unweighted_out"]), float(s["sumw_out"])) for cut, s in stats.items()})


def difference(left: Result, right: Result) -> str:
    """The first thing that is not exactly equal, in words; empty when nothing is.

    The weights have so few digits that every sum of them is exact: the order of adding does not matter.
    """
    for name in HISTOGRAMS:
        for what, one, other in zip(("value", "variance"), left.histograms[name], right.histograms[name], strict=True):
            if len(one) != len(other):
                return f"{name} has {len(one)} and {len(other)} bins"
            wrong = [number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
            if wrong:
                return f"{name}: {what} of bin {wrong[0]}: {one[wrong[0]]} and {other[wrong[0]]} ({len(wrong)} bins)"
    for cut, counted in left.cutflow.items():
        if right.cutflow.get(cut) != counted:
            return f"cut '{cut}': {counted} and {right.cutflow.get(cut)}"
    return ""
