"""The operation `cms.match_l1t_jets`: jets of the trigger nearest to those of the reconstruction."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from pydantic import Field

from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import evaluate
from cenote.analysis.operations.support.events import Events
from cenote.common.arrays import ak
from cenote.language.plugins.settings import Settings

LEAST_ET = 20.0
"""Events without a reconstructed jet above it are dropped."""
_ADDED = ("matched_l1_et", "matched_reco_et", "n_matched", "unmatched_dr")


class JetColumns(Settings):
    """The columns, or expressions, of a collection of jets."""

    et: ExpressionText
    """Transverse energy."""
    eta: ExpressionText
    """Pseudorapidity."""
    phi: ExpressionText
    """Azimuth."""


class MatchL1tJets(Operation):
    """Finds the trigger jet nearest in ΔR to each reconstructed jet, in events that have both (one above 20 GeV).

    It adds `n_matched`; `matched_reco_et` and `matched_l1_et` of the pairs within `dr_max`; and `unmatched_dr`, the
    distance of the other reconstructed jets from the nearest trigger jet.
    """

    example: ClassVar[str] = """
    - id: MatchJets
      op: cms.match_l1t_jets
      params:
        reco: {et: Jet_pt, eta: Jet_eta, phi: Jet_phi}
        l1: {et: Muon_pt, eta: Muon_eta, phi: Muon_phi}
    """

    reco: JetColumns
    """Reconstructed jets."""
    l1: JetColumns
    """Jets of the trigger."""
    dr_max: float = Field(0.4, ge=0)
    """The largest ΔR of a match."""
    output_names: tuple[str, ...] = _ADDED
    """The names of what it adds: accepted for FAST-HEP's sake, they are always these."""

    def reads(self) -> Collection[str]:
        """The names of both collections."""
        return self.names_in(*(text for jets in (self.reco, self.l1) for text in (jets.et, jets.eta, jets.phi)))

    def adds(self) -> Collection[str]:
        """Always the same."""
        return _ADDED

    def run(self, events: Events) -> Result:
        """Compare every pair."""
        reco, l1 = (_jets(columns, events) for columns in (self.reco, self.l1))
        kept = ak.to_numpy((ak.num(l1) > 0) & ak.any(reco.et > LEAST_ET, axis=1))
        events, reco, l1 = events.where(kept), reco[kept], l1[kept]
        one, other = ak.unzip(ak.cartesian([reco, l1], nested=True))
        turn = (one.phi - other.phi + np.pi) % (2 * np.pi) - np.pi
        distance = np.hypot(one.eta - other.eta, turn)
        nearest = ak.argmin(distance, axis=2, keepdims=True)
        best = ak.flatten(distance[nearest], axis=2)
        matched = best <= self.dr_max
        partner = ak.flatten(other.et[nearest], axis=2)
        return Result(
            events.with_columns(
                {
                    "n_matched": ak.to_numpy(ak.sum(matched, axis=1)),
                    "matched_reco_et": reco.et[matched],
                    "matched_l1_et": ak.drop_none(partner[matched]),
                    "unmatched_dr": ak.drop_none(best[~matched]),
                }
            )
        )


def _jets(columns: JetColumns, events: Events) -> ak.Array:
    return ak.zip(
        {name: ak.values_astype(evaluate(text, events), np.float64) for name, text in columns.model_dump().items()}
    )
