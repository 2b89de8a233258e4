"""State how the selection of a cutflow is written: groups of steps that follow each other, or branch off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.expressions.expression import EXPRESSION
from cenote.language.schema.forms import PlainNames
from cenote.names import did_you_mean
from cenote.operations.support.conditions import Condition
from cenote.plugins.normal_form import InOrder
from cenote.plugins.settings import AlsoWritten, Settings

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
