"""The operation `hep.weights.sum`: what the weights of a whole dataset add up to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Operation, Result, Scope
from cenote.analysis.operations.support.evaluation import weights_of
from cenote.analysis.operations.support.events import Events


class SumOfWeights(Operation):
    """Adds up the weights of all events of a dataset, for `hep.weights.normalise`.

    Its product is a number for each dataset. All weights of a dataset come to one worker: 8 bytes for each event.
    """

    example: ClassVar[str] = """
    - id: SumW
      op: hep.weights.sum
      needs: []
      params: {weight: weight}
    """
    scope: ClassVar[Scope] = Scope.DATASET
    product: ClassVar[str | None] = "object"

    weight: ExpressionText
    """The weight of an event: a column, or an expression."""

    def reads(self) -> Collection[str]:
        """The names in the expression."""
        return self.names_in(self.weight)

    def merge(self, parts: Sequence[Any]) -> float:
        """One after the other."""
        return float(sum(parts))

    def run(self, events: Events) -> Result:
        """In the order of the files, whatever the chunks were."""
        return Result(events, float(np.sum(weights_of(self.weight, events))))
