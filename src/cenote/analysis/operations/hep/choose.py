"""The operation `hep.choose`: columns whose values come from the first case that holds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.expressions.functions import FUNCTIONS
from cenote.analysis.expressions.parser import ConditionText, ExpressionText
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import evaluate, event_column, event_mask
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.object_rows import refuse_all_existing
from cenote.common.text import listed
from cenote.language.plugins.quantities import Shown
from cenote.language.plugins.settings import Settings

Values = Annotated[dict[str, ExpressionText], Field(min_length=1)]


class ChooseCase(Settings):
    """Values for the events that fulfil a condition."""

    name: Annotated[str | None, Shown()] = None
    """For errors."""
    when: ConditionText
    """True or false for each event."""
    values: Values
    """Column → expression; the same columns in all cases."""


class Choose(Operation):
    """Adds columns whose values depend on which case an event belongs to."""

    example: ClassVar[str] = """
    - id: Leading
      op: hep.choose
      params:
        cases:
          - {name: muons, when: "nMuon > 0", values: {lead: "max(Muon_pt)"}}
        default: {lead: "-1.0"}
        on_no_match: default
    """

    cases: Annotated[tuple[ChooseCase, ...], Field(min_length=1)]
    """Cases in order: the first that holds decides."""
    default: Values | None = None
    """Values of events for which no case holds."""
    on_multiple: Literal["error", "first"] = "error"
    """What happens where several cases hold for an event."""
    on_no_match: Literal["error", "default"] = "error"
    """What happens where no case holds for an event."""

    @model_validator(mode="after")
    def _same_columns(self) -> Self:
        wanted = self.cases[0].values.keys()
        groups = [(self._title(number), case.values.keys()) for number, case in enumerate(self.cases)]
        if self.on_no_match == "default" and self.default is None:
            raise PydanticCustomError("no_default", "on_no_match: default needs values under 'default'", {})
        if self.default is not None:
            groups.append(("default", self.default.keys()))
        for title, names in groups:
            if odd := sorted(wanted ^ names):
                raise PydanticCustomError(
                    "other_columns", "{title} has other columns than {first}: {odd}",
                    {"title": title, "first": groups[0][0], "odd": listed(odd)},
                )  # fmt: skip
        return self

    def _title(self, number: int) -> str:
        return f"case '{self.cases[number].name or number + 1}'"

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a new column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The names in conditions and values."""
        texts = [text for case in self.cases for text in (case.when, *case.values.values())]
        return self.names_in(*texts, *(self.default or {}).values())

    def conditions(self) -> Collection[str]:
        """When the cases hold."""
        return [case.when for case in self.cases]

    def adds(self) -> Collection[str]:
        """The columns of the cases."""
        return tuple(self.cases[0].values)

    def part_for(self, column: str | None) -> Self:
        """The cases with the values of one column."""
        if column is None or column not in self.adds():
            return self
        values = {column: self.default[column]} if self.default else None
        cases = tuple(case.model_copy(update={"values": {column: case.values[column]}}) for case in self.cases)
        return self.model_copy(update={"cases": cases, "default": values})

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Find the case of each event, then its values."""
        masks = [event_mask(evaluate(case.when, events), events, case.when) for case in self.cases]
        self._refuse(np.sum(masks, axis=0), masks)
        return Result(events.with_columns({name: self._chosen(name, masks, events) for name in self.adds()}))

    def _refuse(self, often: NDArray[np.int64], masks: list[NDArray[np.bool_]]) -> None:
        if self.on_multiple == "error" and (several := np.flatnonzero(often > 1)).size:
            first = several[0]
            held = [self._title(number) for number, mask in enumerate(masks) if mask[first]]
            raise ValueError(f"several cases hold for {len(several)} events, first for event {first}: {listed(held)}")
        if self.on_no_match == "error" and (none := np.flatnonzero(often == 0)).size:
            raise ValueError(f"no case holds for {len(none)} events, first for event {none[0]}")

    def _chosen(self, name: str, masks: list[NDArray[np.bool_]], events: Events) -> Column:
        texts = [case.values[name] for case in self.cases]
        chosen = _values(self.default[name] if self.default else texts[-1], name, events)
        for mask, text in reversed(list(zip(masks, texts, strict=True))):
            chosen = FUNCTIONS["where"].apply(mask, _values(text, name, events), chosen)
        return chosen


def _values(text: str, name: str, events: Events) -> Column:
    return event_column(evaluate(text, events), events, f"column '{name}'")
