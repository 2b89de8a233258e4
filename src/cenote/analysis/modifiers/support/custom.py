"""Make modifiers out of people's own functions: the decorator `modifier`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, create_model

from cenote.analysis.modifiers.interface import Effect, Modifier, Run, StageCall
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.own_code import field_name, parameters_of
from cenote.common import errors
from cenote.language.plugins.kinds import PluginKind

Decorated = TypeVar("Decorated", bound=Callable[..., Result])
_CALL = "call"


class CustomModifier(Modifier):
    """A modifier made by the decorator; a subclass per function, with the function's parameters as fields."""

    code: ClassVar[Callable[..., Result]]
    takes_call: ClassVar[bool] = False
    field_names: ClassVar[Mapping[str, str]] = {}
    """Parameter → field, where a parameter is called like something that every modifier has."""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Call the function with the params of the modifier."""
        params = {name: getattr(self, field) for name, field in self.field_names.items()}
        given = {_CALL: call} if self.takes_call else {}
        return type(self).code(run, events, **given, **params)


def modifier(
    name: str,
    *,
    effect: Effect | Literal["observes", "executes", "changes"] = Effect.OBSERVES,
    measures: Mapping[str, Measure | str] | None = None,
    limits_time: bool = False,
    compiled: bool = False,
) -> Callable[[Decorated], Decorated]:
    """Make a modifier of a function of the stage and its events; it stays usable as what it is.

    The function calls `run(events)` and returns what that returned. A parameter called `call` gets the `StageCall`; the
    others are the params of the modifier. `measures` declares what `call.note` leaves: a title, or a `Measure`;
    `limits_time`, that it calls `call.limit`; `compiled`, that it looks at no column, so that its stages may be
    compiled: it is then called once for all that are compiled together.
    """

    def decorate(code: Decorated) -> Decorated:
        found = [one.name for one in inspect.signature(code).parameters.values()]
        if len(found) < 2:
            raise errors.error(errors.BAD_PLUGIN, f"modifier '{name}': {code.__name__} must take (run, events)")
        parameters = {
            parameter: known
            for parameter, known in parameters_of(f"modifier '{name}'", code, skip=2).items()
            if parameter != _CALL
        }
        fields: dict[str, Any] = {
            field_name(parameter, CustomModifier): (
                annotation,
                Field(default, alias=parameter if field_name(parameter, CustomModifier) != parameter else None),
            )
            for parameter, (annotation, default) in parameters.items()
        }
        made = create_model(
            code.__name__, __base__=CustomModifier, __module__=code.__module__, __doc__=inspect.getdoc(code), **fields
        )
        made.code, made.takes_call, made.effect = code, _CALL in found[2:], Effect(effect)
        made.limits_time = limits_time
        made.why_not_compiled = "" if compiled else CustomModifier.why_not_compiled
        made.field_names = {parameter: field_name(parameter, CustomModifier) for parameter in parameters}
        made.measures = {
            key: measure if isinstance(measure, Measure) else Measure(measure)
            for key, measure in (measures or {}).items()
        }
        code.cenote_plugin = (PluginKind.MODIFIER.value, name)  # type: ignore[attr-defined]  # read by the registry
        code.cenote_factory = made  # type: ignore[attr-defined]  # the same
        return code

    return decorate
