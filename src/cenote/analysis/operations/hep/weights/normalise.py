"""The operation `hep.weights.normalise`: weights that add up to what is expected."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

from pydantic import AliasChoices, Field

from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import refuse_existing, weights_of
from cenote.analysis.operations.support.events import Events


class Normalise(Operation):
    """Adds the weight of each event, divided by the sum of its dataset and times what is expected."""

    example: ClassVar[str] = """
    - {id: SumW, op: hep.weights.sum, needs: [], params: {weight: weight}}
    - id: Weight
      op: hep.weights.normalise
      needs: [SumW]
      params: {weight: weight, sum: SumW, expected: 6025.2 * 59.8, output: event_weight}
    """

    weight: ExpressionText
    """The weight of an event: a column, or an expression."""
    sum: str
    """The stage with the sum: one of `hep.weights.sum`, which is among the `needs` of this one."""
    expected: ExpressionText = "1"
    """How many events are expected: a number or an expression, such as cross-section times luminosity."""
    output: str = Field("event_weight", validation_alias=AliasChoices("output", "out_var"))
    """The column to add."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where the column is there already."""
        refuse_existing(self.output, columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The names in the expressions."""
        return self.names_in(self.weight, self.expected)

    def adds(self) -> Collection[str]:
        """The column that is named."""
        return (self.output,)

    def depends_on_products(self) -> Collection[str]:
        """The stage with the sum."""
        return (self.sum,)

    def keeps_every_event(self) -> bool:
        """It adds a column."""
        return True

    def run(self, events: Events) -> Result:
        """The same for every event of a dataset, but for its weight."""
        total = events.product(self.sum)
        if not isinstance(total, int | float):
            raise TypeError(
                f"the product of stage '{self.sum}' is not a number: `sum` names a stage of hep.weights.sum"
            )
        if total == 0:
            raise ValueError(f"the weights of dataset '{events.dataset.name}' add up to 0: none can be normalised")
        expected = weights_of(self.expected, events)
        weights = weights_of(self.weight, events)
        return Result(events.with_columns({self.output: weights * (expected / total)}))
