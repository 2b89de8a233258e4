"""The queries of the ADL benchmark written by hand, with uproot, awkward and hist: the floor to compare with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import uproot

STEP = 100_000
TOP, Z = 172.5, 91.2

Events = Any  # awkward and hist publish no types
Jagged = Any
Histogram = Any
Values = dict[str, Any]
"""Histogram → what is filled into it."""


@dataclass(frozen=True)
class Query:
    """What it reads, and what it fills into which histograms."""

    columns: Sequence[str]
    histograms: Mapping[str, tuple[int, float, float]]
    """Name → number of bins, low, high."""
    values: Callable[[Events], Values]


def momenta(events: Events, collection: str, *more: str) -> Jagged:
    """Objects with `pt`, `eta`, `phi`, `mass` and further fields."""
    return ak.zip({name: events[f"{collection}_{name}"] for name in ("pt", "eta", "phi", "mass", *more)})


def added(*objects: Jagged) -> tuple[Jagged, Jagged]:
    """Transverse momentum and mass of their sum."""
    px = sum(one.pt * np.cos(one.phi) for one in objects)
    py = sum(one.pt * np.sin(one.phi) for one in objects)
    pz = sum(one.pt * np.sinh(one.eta) for one in objects)
    energy = sum(np.sqrt((one.pt * np.cosh(one.eta)) ** 2 + one.mass**2) for one in objects)
    pt = np.sqrt(px**2 + py**2)
    return pt, np.sqrt(np.maximum(energy**2 - px**2 - py**2 - pz**2, 0))


def _q1(events: Events) -> Values:
    return {"q1": events.MET_pt}


def _q2(events: Events) -> Values:
    return {"q2": ak.flatten(events.Jet_pt)}


def _q3(events: Events) -> Values:
    return {"q3": ak.flatten(events.Jet_pt[abs(events.Jet_eta) < 1])}


def _q4(events: Events) -> Values:
    return {"q4": events.MET_pt[ak.sum(events.Jet_pt > 40, axis=1) >= 2]}


def _q5(events: Events) -> Values:
    one, other = ak.unzip(ak.combinations(momenta(events, "Muon", "charge"), 2))
    _, mass = added(one, other)
    good = (one.charge != other.charge) & (mass > 60) & (mass < 120)
    return {"q5": events.MET_pt[ak.any(good, axis=1)]}


def _q6(events: Events) -> Values:
    triples = ak.combinations(momenta(events, "Jet", "btagDeepB"), 3, fields=["a", "b", "c"])
    pt, mass = added(triples.a, triples.b, triples.c)
    best = ak.argmin(abs(mass - TOP), axis=1, keepdims=True)
    tag = np.maximum(np.maximum(triples.a.btagDeepB, triples.b.btagDeepB), triples.c.btagDeepB)
    return {"q6_pt": ak.flatten(ak.drop_none(pt[best])), "q6_tag": ak.flatten(ak.drop_none(tag[best]))}


def _q7(events: Events) -> Values:
    jets = momenta(events, "Jet")
    alone = jets.pt > 30
    for collection in ("Muon", "Electron"):
        leptons = momenta(events, collection)
        jet, lepton = ak.unzip(ak.cartesian([jets, leptons[leptons.pt > 10]], nested=True))
        turn = (jet.phi - lepton.phi + np.pi) % (2 * np.pi) - np.pi
        near = np.sqrt((jet.eta - lepton.eta) ** 2 + turn**2) < 0.4
        alone = alone & ~ak.any(near, axis=2)
    return {"q7": ak.sum(jets.pt[alone], axis=1)}


def _q8(events: Events) -> Values:
    kinds = [ak.with_field(momenta(events, name, "charge"), flavour, "flavour") for flavour, name in enumerate(LIGHT)]
    leptons = ak.concatenate(kinds, axis=1)
    enough = ak.num(leptons) >= 3
    leptons, met, phi = leptons[enough], events.MET_pt[enough], events.MET_phi[enough]
    pairs = ak.argcombinations(leptons, 2, fields=["a", "b"])
    one, other = leptons[pairs.a], leptons[pairs.b]
    pairs = pairs[(one.flavour == other.flavour) & (one.charge != other.charge)]
    _, mass = added(leptons[pairs.a], leptons[pairs.b])
    best = ak.firsts(pairs[ak.argmin(abs(mass - Z), axis=1, keepdims=True)])
    there = ~ak.is_none(best)
    leptons, met, phi, best = leptons[there], met[there], phi[there], best[there]
    place = ak.local_index(leptons)
    rest = leptons[(place != best.a) & (place != best.b)]
    lepton = ak.firsts(rest[ak.argmax(rest.pt, axis=1, keepdims=True)])
    return {"q8": np.sqrt(2 * met * lepton.pt * (1 - np.cos(phi - lepton.phi)))}


LIGHT = ("Muon", "Electron")
_JET = ["Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"]
_MUON = ["Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass"]
_ELECTRON = ["Electron_pt", "Electron_eta", "Electron_phi", "Electron_mass"]

QUERIES = {
    "q1": Query(["MET_pt"], {"q1": (100, 0, 200)}, _q1),
    "q2": Query(["Jet_pt"], {"q2": (100, 15, 60)}, _q2),
    "q3": Query(["Jet_pt", "Jet_eta"], {"q3": (100, 15, 60)}, _q3),
    "q4": Query(["MET_pt", "Jet_pt"], {"q4": (100, 0, 200)}, _q4),
    "q5": Query(["MET_pt", *_MUON, "Muon_charge"], {"q5": (100, 0, 200)}, _q5),
    "q6": Query([*_JET, "Jet_btagDeepB"], {"q6_pt": (100, 15, 40), "q6_tag": (100, 0, 1)}, _q6),
    "q7": Query([*_JET, *_MUON, *_ELECTRON], {"q7": (100, 15, 200)}, _q7),
    "q8": Query(
        ["MET_pt", "MET_phi", *_MUON, "Muon_charge", *_ELECTRON, "Electron_charge"], {"q8": (100, 15, 250)}, _q8
    ),
}
"""As IRIS-HEP's ADL benchmarks define them: missing energy of all events; jets; central jets; missing energy with two
hard jets; with a pair of muons near the Z; the three jets nearest to the top; jets away from leptons, added up; the
transverse mass of missing energy and the lepton beside a Z."""


def run(names: Sequence[str], files: Sequence[Path]) -> dict[str, Histogram]:
    """The histograms of these queries, in one pass."""
    queries = [QUERIES[name] for name in names]
    columns = sorted({column for query in queries for column in query.columns})
    histograms = {
        name: hist.Hist.new.Reg(*bins, name="x").Int64() for query in queries for name, bins in query.histograms.items()
    }
    for file in files:
        with uproot.open(file) as opened:
            for events in opened["Events"].iterate(columns, step_size=STEP):
                for query in queries:
                    for name, values in query.values(events).items():
                        histograms[name].fill(values)
    return histograms


def main() -> None:
    """`python handwritten.py OUT.json q1,q3 FILE…`."""
    parser = argparse.ArgumentParser(description="Queries of the ADL benchmark as a loop written by hand.")
    parser.add_argument("out", type=Path)
    parser.add_argument("queries", help="with commas between them")
    parser.add_argument("files", type=Path, nargs="+")
    chosen = parser.parse_args()
    found = run(chosen.queries.split(","), chosen.files)
    chosen.out.write_text(json.dumps({name: one.values(flow=True).tolist() for name, one in found.items()}))


if __name__ == "__main__":
    main()
