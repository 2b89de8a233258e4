"""Check operations that clean collections and build candidates against calculations by hand with vector."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
import vector
from pydantic import ValidationError

from cenote.analysis.operations.hep.build_lepton_met_candidate import BuildLeptonMetCandidate
from cenote.analysis.operations.hep.build_pairs import BuildPairs
from cenote.analysis.operations.hep.build_recoil import BuildRecoil
from cenote.analysis.operations.hep.choose import Choose
from cenote.analysis.operations.hep.clean import Clean
from cenote.analysis.operations.hep.weights.pdf_envelope import PdfEnvelope
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common import errors
from cenote.common.errors import CenoteError

vector.register_awkward()


def events(seed: int = 3, size: int = 300) -> Events:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for name, most in (("Muon", 5), ("Electron", 3), ("Jet", 7)):
        counts = rng.integers(0, most, size)
        limits = {"pt": (3, 90), "eta": (-2.4, 2.4), "phi": (-3.1, 3.1), "mass": (0.1, 5)}
        for field, (low, high) in limits.items():
            values = rng.uniform(low, high, counts.sum()).astype(np.float32)
            columns[f"{name}_{field}"] = ak.unflatten(values, counts)
        columns[f"{name}_charge"] = ak.unflatten(rng.choice(np.array([-1, 1], np.int8), counts.sum()), counts)
        columns[f"n{name}"] = counts
    columns["MET_pt"], columns["MET_phi"] = rng.uniform(0, 100, size), rng.uniform(-3, 3, size)
    columns["rho"] = rng.uniform(0, 30, size)
    return Events(columns, size, DatasetInfo("dy", "mc"))


def done(kind: type[Operation], given: Events, **params: Any) -> Events:
    """As on a worker: what the plan resolved travels as plain settings."""
    planned = kind.model_validate(params).for_stage("s").resolve(list(given.names))
    sent = planned.model_dump(mode="json", by_alias=True, exclude_unset=True)
    read = {*planned.reads(), *planned.copies().values()} & {*given.names}
    result = kind.model_validate(sent).for_stage("s").run(given.keep(read)).events
    assert {*planned.adds()} <= {*result.names}
    return result


def vectors(given: Events, collection: str) -> ak.Array:
    fields = {
        field: ak.values_astype(given[f"{collection}_{field}"], np.float64) for field in ("pt", "eta", "phi", "mass")
    }
    charge = given[f"{collection}_charge"]
    return ak.zip({**fields, "charge": charge}, with_name="Momentum4D")


def close(found: Any, expected: Any) -> bool:
    assert ak.num(found).tolist() == ak.num(expected).tolist()
    return bool(np.allclose(ak.flatten(found), ak.flatten(expected), rtol=1e-6, atol=1e-6))


def test_jets_near_leptons_are_removed_and_the_others_copied() -> None:
    given = events()
    result = done(Clean, given, source="Jet", clean_against=["Muon", "Electron"], output="Clean", sort_by="pt")
    jets, far = vectors(given, "Jet"), True
    for name in ("Muon", "Electron"):
        pairs = ak.cartesian({"jet": jets, "other": vectors(given, name)}, nested=True)
        far = far & ~ak.any(pairs["jet"].deltaR(pairs["other"]) < 0.4, axis=2)
    order = ak.argsort(jets.pt[far], ascending=False, stable=True)
    for field in ("pt", "eta", "charge"):
        assert result[f"Clean_{field}"].tolist() == given[f"Jet_{field}"][far][order].tolist()
    assert result["nClean"].tolist() == ak.num(jets[far]).tolist()
    assert result["nremoved_Clean"].tolist() == ak.num(jets[~far]).tolist()
    assert ak.sum(result["nremoved_Clean"]) > 0


def test_what_was_removed_can_be_kept_and_its_count_left_out() -> None:
    given = events()
    told = {"removed_count": False, "keep_removed": True}
    result = done(Clean, given, source="Jet", clean_against="Muon", fields=["pt"], diagnostics=told)
    assert "nremoved_cleaned_Jet" not in result.names
    both = ak.num(result["cleaned_Jet_pt"]) + ak.num(result["cleaned_Jet_removed_pt"])
    assert both.tolist() == given["nJet"].tolist()


def test_only_fields_that_are_read_later_are_copied() -> None:
    given = events()
    clean = Clean.model_validate({"source": "Jet", "clean_against": ["Muon"]}).for_stage("s").resolve(list(given.names))
    assert {*clean.reads()} == {"Jet_eta", "Jet_phi", "Muon_eta", "Muon_phi"}
    assert clean.copies()["cleaned_Jet_mass"] == "Jet_mass"
    some = Events(given.columns, given.size, given.dataset, live=frozenset({"cleaned_Jet_pt"}))
    added = {*clean.run(some).events.names} - {*given.names}
    assert added == {"cleaned_Jet_pt", "ncleaned_Jet", "nremoved_cleaned_Jet"}


@pytest.mark.parametrize("collections", [["Muon"], ["Muon", "Electron"]])
def test_pairs_have_the_four_vectors_of_their_sums(collections: list[str]) -> None:
    given = events()
    result = done(
        BuildPairs,
        given,
        collections=collections,
        output="Pair",
        selection={"pair": ["lepton_1_charge != lepton_2_charge", "lepton_1_pt > rho"], "candidate": ["mass > 20"]},
        sort={"by": "abs(mass - 91.2)"},
        keep={"candidate": ["pt", "eta", "phi", "mass"], "constituents": ["pt", "charge"]},
    )
    objects = ak.concatenate([vectors(given, name) for name in collections], axis=1)
    one, other = ak.unzip(ak.combinations(objects, 2))
    good = (one.charge != other.charge) & (one.pt > given["rho"]) & ((one + other).mass > 20)
    one, other = one[good], other[good]
    order = ak.argsort(abs((one + other).mass - 91.2), stable=True)
    both = (one + other)[order]
    for field in ("pt", "eta", "phi", "mass"):
        assert close(result[f"Pair_Z_{field}"], getattr(both, field))
    assert close(result["Pair_lepton_2_pt"], other.pt[order])
    assert result["Pair_lepton_1_charge"].tolist() == one.charge[order].tolist()
    assert result["nPair_Z"].tolist() == ak.num(both).tolist()


def test_the_recoil_is_the_hardest_candidate() -> None:
    given = events()
    result = done(
        BuildRecoil, given, met="MET", visible=["Muon"], output="R", selection=["pt > 30"], keep=["pt", "phi"]
    )
    muons = vectors(given, "Muon")
    px = given["MET_pt"] * np.cos(given["MET_phi"]) + muons.px
    py = given["MET_pt"] * np.sin(given["MET_phi"]) + muons.py
    pt = np.hypot(px, py)
    chosen = pt[pt > 30]
    assert result["nR"].tolist() == ak.num(chosen).tolist()
    assert close(result["R_pt"], ak.sort(chosen, ascending=False)[:, :1])
    alone = done(BuildRecoil, given, met="MET", output="R", keep=["pt", "mass"])
    assert close(alone["R_pt"], ak.unflatten(given["MET_pt"], 1))
    assert alone["nR"].tolist() == [1] * given.size


def test_a_lepton_and_missing_momentum_make_a_candidate() -> None:
    given = events()
    result = done(
        BuildLeptonMetCandidate,
        given,
        lepton="Muon",
        met="MET",
        output="Lep",
        selection={"lepton": ["pt > 20", "rho > 5"], "candidate": ["MT > 30"]},
        keep={"candidate": ["pt", "mass", "MT"], "lepton": ["pt", "charge"]},
    )
    muons = vectors(given, "Muon")
    muons = muons[(muons.pt > 20) & (given["rho"] > 5)]
    assert result["nLep_lepton"].tolist() == ak.num(muons).tolist()
    mt = np.sqrt(2 * muons.pt * given["MET_pt"] * (1 - np.cos(muons.phi - given["MET_phi"])))
    good = mt > 30
    px = muons.px + given["MET_pt"] * np.cos(given["MET_phi"])
    py = muons.py + given["MET_pt"] * np.sin(given["MET_phi"])
    energy = muons.E + given["MET_pt"]
    assert close(result["Lep_W_MT"], mt[good])
    assert close(result["Lep_W_pt"], np.hypot(px, py)[good])
    assert close(result["Lep_W_mass"], np.sqrt(energy**2 - px**2 - py**2 - muons.pz**2)[good])
    assert result["Lep_lepton_charge"].tolist() == muons.charge[good].tolist()


def test_the_first_case_that_holds_gives_the_values() -> None:
    given = events()
    cases = [
        {"name": "muons", "when": "nMuon > 0", "values": {"lead": "max(Muon_pt)", "kind": "13"}},
        {"name": "electrons", "when": "nElectron > 0", "values": {"lead": "max(Electron_pt)", "kind": "11"}},
    ]
    default = {"lead": "-1.0", "kind": "0"}
    result = done(Choose, given, cases=cases, default=default, on_multiple="first", on_no_match="default")
    for event in range(given.size):
        muons, electrons = given["Muon_pt"][event].tolist(), given["Electron_pt"][event].tolist()
        kind = 13 if muons else 11 if electrons else 0
        assert result["kind"][event] == kind
        assert result["lead"][event] == max(muons or electrons or [-1.0])
    with pytest.raises(ValueError, match=r"several cases hold for \d+ events, .* case 'muons'"):
        done(Choose, given, cases=cases, default=default, on_no_match="default")
    with pytest.raises(ValueError, match="no case holds for"):
        done(Choose, given, cases=cases, on_multiple="first")


def test_mistakes_are_said_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="case 'b' has other columns than case 'a'"):
        Choose.model_validate(
            {
                "cases": [
                    {"name": "a", "when": "x > 1", "values": {"y": "1"}},
                    {"name": "b", "when": "x < 1", "values": {"z": "1"}},
                ]
            }
        )
    with pytest.raises(ValidationError, match="on_no_match: default needs values"):
        Choose.model_validate({"cases": [{"when": "x > 1", "values": {"y": "1"}}], "on_no_match": "default"})
    with pytest.raises(ValidationError, match="a candidate has no 'charge'"):
        BuildPairs.model_validate(
            {"collections": "Muon", "output": "P", "keep": {"candidate": ["charge"], "constituents": ["pt"]}}
        )
    made = Clean.model_validate({"source": "Jet", "clean_against": ["Muon"], "output": "Muon"}).for_stage("s")
    with pytest.raises(CenoteError) as refused:
        made.resolve(list(events().names))
    assert refused.value.problems[0].kind is errors.COLUMN_CLASH


def test_the_envelope_has_the_largest_and_the_smallest_weight() -> None:
    weights = ak.Array([[0.9, 1.2, 1.0], [1.1]])
    given = Events({"w": weights}, 2, DatasetInfo("dy", "mc"))
    result = done(PdfEnvelope, given, inputs="w", outputs={"up": "u", "down": "d"})
    assert result["u"].tolist() == [1.2, 1.1]
    assert result["d"].tolist() == [0.9, 1.1]
