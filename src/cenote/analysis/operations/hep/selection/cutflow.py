"""The operation `hep.selection.cutflow`: keep events, and count what every cut does."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, Field, field_validator

from cenote.analysis.compiled.sample_types import obstacle_in_any
from cenote.analysis.expressions.arrays import dimensions
from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.conditions import CutGroup, Groups, decisions_in, step_name, why_not_compiled
from cenote.analysis.operations.support.evaluation import evaluate, event_column, every_value, refuse_existing
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins.settings import AlsoWritten

if TYPE_CHECKING:
    from cenote.analysis.compiled.stage import EventTally, StageResults
    from cenote.analysis.compiled.values import Value
    from cenote.analysis.operations.support.stage_form import StageForm

EventMask = NDArray[np.bool_]
_FILTERS = {True: "all", False: "none", None: "all"}


class SelectionCutflow(Operation):
    """Passes events through groups of cuts. The table counts each cut, per dataset; weights change only the sums."""

    example: ClassVar[str] = """
    - id: Preselection
      op: hep.selection.cutflow
      params:
        weight_expr: weight
        selection:
          All:
            - {label: trigger, expr: HLT_IsoMu24}
            - {label: two muons, expr: "nMuon >= 2"}
            - {label: a hard muon, reduce: {op: any, over: "Muon_pt > 25"}}
    """

    product: ClassVar[str | None] = "cutflow"

    selection: Groups
    """Group → list of steps, or `{steps, parents}`. A step is an expression, `{expr, label}`, `{reduce: {op, over}}`,
    or a tree of `All` and `Any`. A list alone is one group called `All`."""
    weight_expr: ExpressionText | None = Field(default=None, validation_alias=AliasChoices("weight_expr", "weight"))
    """A weight per event for the sums."""
    output_field: str | None = None
    """Also keep the combined decision as a boolean column."""
    filter: Annotated[Literal["all", "any", "none"], AlsoWritten({"type": ["boolean", "null"]})] = "all"
    """How groups combine: events must pass all of them, any of them, or nothing is dropped."""
    emit_flags: bool = True
    """Add a boolean column `<stage>_<group>` per group, also readable as `<stage>.<group>`."""

    @field_validator("filter", mode="before")
    @classmethod
    def _yes_or_no(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        return _FILTERS[given] if given is None or isinstance(given, bool) else given

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` when `output_field` is there already."""
        if self.output_field is not None:
            refuse_existing(self.output_field, columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The columns of all steps and of the weight."""
        steps = (step for group in self.selection.values() for step in group.steps)
        return self.names_in(*(text for step in steps for text in step.texts()), self.weight_expr)

    def conditions(self) -> Collection[str]:
        """All steps."""
        return decisions_in(step for group in self.selection.values() for step in group.steps)

    def adds(self) -> Collection[str]:
        """The flags of the groups, and `output_field`."""
        flags = [self._flag(group) for group in self.selection] if self.emit_flags else []
        return (*flags, *([self.output_field] if self.output_field else []))

    def _flag(self, group: str) -> str:
        part = re.sub(r"\W+", "_", group)
        return column_name(f"{self.stage}_{part}")

    def keeps_every_event(self) -> bool:
        """Where it only flags them."""
        return self.filter == "none"

    def looks_at(self, dataset: DatasetInfo, datasets: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002  # its own alone
        """The name of the dataset, which each line of the table has."""
        return {"dataset": dataset.name}

    def part_for(self, column: str | None) -> Self:  # noqa: ARG002  # any of them
        """Columns, and what passes, without the table: they know no weights."""
        return self.model_copy(update={"weight_expr": None})

    def dressed(self, product: Any) -> Any:  # Any: a Cutflow
        """With the labels and conditions of the steps as they are written now."""
        steps = {
            step_name(name, place): {"label": step.label or step.text, "expr": step.text}
            for name, group in self.selection.items()
            for place, step in enumerate(group.steps)
        }
        return Cutflow(tuple(replace(row, **steps[row.name]) for row in product.rows))

    def run(self, events: Events) -> Result:
        """Count, flag and keep."""
        counting = _Counting(events, self._weights(events))
        masks = {name: counting.group(name, group) for name, group in self.selection.items()}
        combined: Callable[[EventMask, EventMask], EventMask] = (
            np.logical_or if self.filter == "any" else np.logical_and
        )
        passing = reduce(combined, masks.values())
        added = {self._flag(name): mask for name, mask in masks.items()} if self.emit_flags else {}
        if self.output_field:
            added[self.output_field] = passing
        kept = events.with_columns(added)
        return Result(kept if self.filter == "none" else kept.where(passing), Cutflow(tuple(counting.rows)))

    def why_not_compiled(self) -> str | None:
        """What in its steps or its weight has no compiled form."""
        found = why_not_compiled(step for group in self.selection.values() for step in group.steps)
        return found or obstacle_in_any([self.weight_expr])

    def write_compiled(self, form: StageForm) -> None:
        """Count, flag and keep."""
        weight = None if self.weight_expr is None else form.number(form.per_event(form.value(self.weight_expr)))
        counting = _CompiledCounting(form, weight)
        masks = {name: counting.group(name, group) for name, group in self.selection.items()}
        passing = reduce(form.either if self.filter == "any" else form.both, masks.values())
        for name, mask in masks.items() if self.emit_flags else ():
            form.define(self._flag(name), mask)
        if self.output_field:
            form.define(self.output_field, passing)
        form.kept = None if self.filter == "none" else passing
        form.product = counting.cutflow

    def _weights(self, events: Events) -> NDArray[np.float64] | None:
        if self.weight_expr is None:
            return None
        weights = event_column(evaluate(self.weight_expr, events), events, f"'{self.weight_expr}'")
        if dimensions(weights) != 1:
            raise EvaluationError(f"'{self.weight_expr}' is a list per event, a cutflow needs one weight per event")
        return every_value(weights, f"the weight '{self.weight_expr}'").astype(np.float64, copy=False)


class _Counting:
    """Walks through the groups and keeps what later ones may begin at."""

    def __init__(self, events: Events, weights: NDArray[np.float64] | None) -> None:
        self.events = events
        self.weights = weights
        self.passed: dict[str, EventMask] = {}
        self.rows: list[CutflowRow] = []

    def group(self, name: str, group: CutGroup) -> EventMask:
        """The events that pass the whole group."""
        everything = np.ones(self.events.size, dtype=np.bool_)
        mask: EventMask = reduce(np.logical_and, (self.passed[parent] for parent in group.parents), everything)
        before = self.count(mask)
        for index, step in enumerate(group.steps):
            mask = mask & step.mask(self.events)
            after = self.count(mask)
            cut = _Cut(name, group, index, weighted=self.weights is not None)
            self.rows.append(_row(self.events.dataset.name, cut, before, after))
            self.passed[step_name(name, index)] = mask
            before = after
        self.passed[name] = mask
        return mask

    def count(self, mask: EventMask) -> _Count:
        """What fulfils a mask."""
        return _Count.of(int(np.count_nonzero(mask)), None if self.weights is None else self.weights[mask])


class _CompiledCounting:
    """Writes the same as typed values, and makes the rows of what is counted then."""

    def __init__(self, form: StageForm, weight: Value | None) -> None:
        self.form = form
        self.weight = weight
        self.passed: dict[str, Value] = {}
        self.cuts: list[tuple[_Cut, EventTally, EventTally]] = []

    def group(self, name: str, group: CutGroup) -> Value:
        """The events that pass the whole group."""
        mask = reduce(self.form.both, (self.passed[parent] for parent in group.parents)) if group.parents else None
        before = self.form.tally(mask, self.weight)
        for index, step in enumerate(group.steps):
            holds = step.compiled(self.form)
            mask = holds if mask is None else self.form.both(mask, holds)
            after = self.form.tally(mask, self.weight)
            self.cuts.append((_Cut(name, group, index, weighted=self.weight is not None), before, after))
            self.passed[step_name(name, index)] = mask
            before = after
        assert mask is not None, "a group has steps"
        self.passed[name] = mask
        return mask

    def cutflow(self, results: StageResults) -> Cutflow:
        """The table."""
        counts = {tally: _Count.of(found.events, found.weights) for tally, found in results.tallies.items()}
        dataset = self.form.events.dataset.name
        return Cutflow(tuple(_row(dataset, cut, counts[before], counts[after]) for cut, before, after in self.cuts))


@dataclass(frozen=True)
class _Cut:
    """A step of a group."""

    selection: str
    group: CutGroup
    index: int
    weighted: bool


@dataclass(frozen=True)
class _Count:
    """Events, the sum of their weights, and of the squares of these."""

    number: int
    weights: float
    squares: float

    @classmethod
    def of(cls, number: int, weights: NDArray[np.float64] | None) -> Self:
        """Of the weights of so many events; None: each is 1."""
        if weights is None:
            return cls(number, float(number), float(number))
        return cls(number, float(weights.sum()), float(np.square(weights).sum()))


def _row(dataset: str, cut: _Cut, before: _Count, after: _Count) -> CutflowRow:
    """One line of the table."""
    step = cut.group.steps[cut.index]
    forms = {"expression": step.expr, "reduce": step.reduce, "all": step.all_of, "any": step.any_of}
    return CutflowRow(
        dataset=dataset,
        name=step_name(cut.selection, cut.index),
        selection=cut.selection,
        index=cut.index,
        label=step.label or step.text,
        expr=step.text,
        kind=next(kind for kind, form in forms.items() if form is not None),
        parents=cut.group.parents if cut.index == 0 else (),
        weighted=cut.weighted,
        n_unweighted_in=before.number,
        sumw_in=before.weights,
        sumw2_in=before.squares,
        n_unweighted_out=after.number,
        sumw_out=after.weights,
        sumw2_out=after.squares,
    )
