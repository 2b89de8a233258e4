"""State how conditions are written in settings: expressions, reductions, and trees of All and Any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.compiled.sample_types import obstacle_in
from cenote.analysis.expressions.parser import EXPRESSION, ConditionText
from cenote.analysis.operations.support.evaluation import evaluate, event_mask
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.variables import Reduce
from cenote.common.text import did_you_mean
from cenote.language.plugins.quantities import InOrder, Shown
from cenote.language.plugins.settings import AlsoWritten, Settings
from cenote.language.schema.forms import OneOrMany, PlainNames

if TYPE_CHECKING:
    from cenote.analysis.compiled.values import Value
    from cenote.analysis.operations.support.stage_form import StageForm


class Condition(Settings):
    """What an event must fulfil: exactly one of `expr`, `reduce`, `All` and `Any`."""

    short_forms: ClassVar = (EXPRESSION,)
    lists_are_short: ClassVar = True

    expr: ConditionText | None = None
    """An expression that is true or false for each event."""
    reduce: Reduce | None = None
    """`{op: any, over: "Muon_pt > 25"}`."""
    all_of: tuple[Condition, ...] | None = Field(
        default=None, validation_alias=AliasChoices("All", "all"), serialization_alias="All", min_length=1
    )
    """Conditions that must all hold."""
    any_of: tuple[Condition, ...] | None = Field(
        default=None, validation_alias=AliasChoices("Any", "any"), serialization_alias="Any", min_length=1
    )
    """Conditions of which one must hold."""
    label: Annotated[str | None, Shown()] = None
    """For tables."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        if isinstance(given, list | tuple):
            return {"All": list(given)}
        return given if isinstance(given, Mapping | Condition) else {"expr": given}

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [form for form in (self.expr, self.reduce, self.all_of, self.any_of) if form is not None]
        if len(given) != 1:
            raise PydanticCustomError("bad_condition", "a condition is one of: an expression, reduce, All, Any", {})
        return self

    @property
    def text(self) -> str:
        """As one line a person can read."""
        if self.reduce is not None:
            return self.reduce.text
        if self.all_of is not None:
            return f"all({', '.join(part.text for part in self.all_of)})"
        if self.any_of is not None:
            return f"any({', '.join(part.text for part in self.any_of)})"
        return self.expr or ""

    def texts(self) -> Iterator[str]:
        """Every expression in it, in order."""
        if self.expr is not None:
            yield self.expr
        if self.reduce is not None:
            yield self.reduce.over
        for part in (*(self.all_of or ()), *(self.any_of or ())):
            yield from part.texts()

    def decisions(self) -> Iterator[str]:
        """What must be one true or false per event, as expressions, in order."""
        parts = (*(self.all_of or ()), *(self.any_of or ()))
        if not parts:
            yield self.text
        for part in parts:
            yield from part.decisions()

    def mask(self, events: Events) -> NDArray[np.bool_]:
        """One boolean per event."""
        if self.all_of is not None:
            return reduce(np.logical_and, (part.mask(events) for part in self.all_of))
        if self.any_of is not None:
            return reduce(np.logical_or, (part.mask(events) for part in self.any_of))
        value = self.reduce.value(events) if self.reduce is not None else evaluate(self.text, events)
        return event_mask(value, events, self.text)

    def why_not_compiled(self) -> str | None:
        """What in it has no compiled form; None where all has one."""
        if self.reduce is not None:
            return self.reduce.why_not_compiled()
        if self.expr is not None:
            return obstacle_in(self.expr)
        return why_not_compiled((*(self.all_of or ()), *(self.any_of or ())))

    def compiled(self, form: StageForm) -> Value:
        """The same as a typed value."""
        if self.all_of is not None:
            return reduce(form.both, (part.compiled(form) for part in self.all_of))
        if self.any_of is not None:
            return reduce(form.either, (part.compiled(form) for part in self.any_of))
        return form.as_condition(self.reduce.compiled(form) if self.reduce is not None else form.value(self.text))


Conditions = Annotated[tuple[Condition, ...], OneOrMany(), Field(min_length=1)]
"""Conditions that must all hold: one, or a list."""


def why_not_compiled(conditions: Iterable[Condition]) -> str | None:
    """What in conditions has no compiled form; None where all has one."""
    return next(filter(None, (condition.why_not_compiled() for condition in conditions)), None)


def decisions_in(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """What must be one true or false per event, as expressions, in order."""
    return tuple(text for condition in conditions for text in condition.decisions())


def compiled_mask(conditions: tuple[Condition, ...], form: StageForm) -> Value:
    """What `mask_of` gives, as a typed value."""
    return reduce(form.both, (condition.compiled(form) for condition in conditions))


def mask_of(conditions: tuple[Condition, ...], events: Events) -> NDArray[np.bool_]:
    """The events that fulfil all of them."""
    return reduce(np.logical_and, (condition.mask(events) for condition in conditions))


# State how the selection of a cutflow is written: groups of steps that follow each other, or branch off.


_STEP_KEYS = frozenset({"steps", "cuts"})
_CONDITION_KEYS = frozenset({"All", "Any", "all", "any", "expr", "reduce"})


class CutGroup(Settings):
    """Steps that an event passes one after the other."""

    short_forms: ClassVar = (
        EXPRESSION,
        {"type": "array", "minItems": 1},
        {"type": "object", "anyOf": [{"required": [key]} for key in sorted(_CONDITION_KEYS)]},
    )

    steps: tuple[Condition, ...] = Field(validation_alias=AliasChoices("steps", "cuts"), min_length=1)
    """Conditions; each sees the events that passed the ones before."""
    parents: PlainNames = Field(default=(), validation_alias=AliasChoices("parents", "parent", "from"))
    """Steps of earlier groups that events must have passed, such as `All[1]`; a group's name means its last step."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        if isinstance(given, Mapping) and _CONDITION_KEYS & given.keys() and not _STEP_KEYS & given.keys():
            return {"steps": [given]}
        if isinstance(given, Mapping | CutGroup):
            return given
        return {"steps": list(given) if isinstance(given, list | tuple) else [given]}


def _as_groups(given: Any) -> Any:  # Any: whatever the YAML holds
    """A selection without groups is one group called `All`; a group called `Any` is one step with alternatives."""
    if not isinstance(given, Mapping):
        return {"All": given}
    if {"expr", "reduce"} & given.keys():
        return {"All": [given]}
    return {
        str(name): {"steps": [{"Any": steps}]} if name in ("Any", "any") and isinstance(steps, list) else steps
        for name, steps in given.items()
    }


def _with_known_parents(groups: dict[str, CutGroup]) -> dict[str, CutGroup]:
    known: dict[str, str] = {}
    for name, group in groups.items():
        for parent in group.parents:
            if parent not in known:
                hint = did_you_mean(parent, known)
                raise PydanticCustomError(
                    "unknown_parent",
                    "group '{group}' begins at '{parent}', which is not a step of an earlier group{hint}",
                    {"group": name, "parent": parent, "hint": f"; {hint}" if hint else ""},
                )
        known |= {step_name(name, index): "" for index in range(len(group.steps))}
        known[name] = ""
    return groups


def step_name(group: str, index: int) -> str:
    """`All[0]`."""
    return f"{group}[{index}]"


Groups = Annotated[
    dict[str, CutGroup],
    BeforeValidator(_as_groups),
    InOrder(),
    Field(min_length=1),
    AfterValidator(_with_known_parents),
    AlsoWritten(
        EXPRESSION,
        {"type": "array", "minItems": 1},
        {"type": "object", "anyOf": [{"required": ["expr"]}, {"required": ["reduce"]}]},
    ),
]
"""Group → steps, in order."""
