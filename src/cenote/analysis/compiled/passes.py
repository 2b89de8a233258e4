"""Cut compiled stages into passes: one loop over events each, with what numpy computes in between.

A stage that needs a function of numpy waits, with all that come after it, for the next pass: that one goes over the
events that reach the stage only, and finds what numpy computed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cenote.analysis.compiled.stage import HistogramFill, Sink, StageResults
from cenote.analysis.compiled.values import Input, NotCompiledError, Numpy, Opaque, Value, arguments_of, conditions_of
from cenote.common.values import dataclass

LARGEST = 1_200
"""Values and sinks of one loop: some hundred histograms, a quarter of a second to compile."""
_SINK = 5
"""What a sink counts."""


@dataclass(frozen=True, eq=False)
class CompiledStage:
    """What a stage does, in typed values."""

    stage: str
    inputs: tuple[str, ...]
    incoming: Value | None
    """Which of the group's events reach it; None: all of them."""
    outgoing: Value | None
    columns: Mapping[str, Value | Opaque]
    """Those that go on."""
    added: tuple[Value, ...]
    sinks: tuple[Sink, ...]
    histograms: tuple[Callable[[], Any], ...]  # Any: hist publishes no types
    product: Callable[[StageResults], Any] | None
    leaves: bool
    """Whether its events are needed outside of the group."""

    def needed(self) -> Iterator[Value]:
        """Every value that it has to compute."""
        yield from (condition for condition in (self.incoming, self.outgoing) if condition is not None)
        yield from self.added
        for sink in self.sinks:
            yield from _needed_by(sink)
        if self.leaves:
            yield from (value for value in self.columns.values() if isinstance(value, Value))


def _needed_by(sink: Sink) -> Iterator[Value]:
    if isinstance(sink, HistogramFill):
        yield from sink.values
        if sink.space is not None:
            yield from conditions_of(sink.space)
    elif sink.condition is not None:
        yield sink.condition
    if sink.weight is not None:
        yield sink.weight


@dataclass(frozen=True, eq=False)
class Export:
    """Values of the events that fulfil a condition, one after the other, and where these events are."""

    condition: Value | None
    values: tuple[Value, ...]
    after: tuple[str, ...]
    """The stages that all these events have gone through last."""


@dataclass(frozen=True, eq=False)
class LaterPass:
    """A pass after numpy's turn."""

    export: Export
    """Its events, with the arguments of the calls."""
    calls: tuple[Numpy, ...]
    then: Pass


@dataclass(frozen=True, eq=False)
class Pass:
    """One loop over events."""

    root: Value | None
    """Which of the group's events it goes over; None: all."""
    given: tuple[Numpy, ...]
    """What numpy computed, one value (or list) for each of them."""
    stages: tuple[CompiledStage, ...]
    leaving: Mapping[str, Export]
    """Stages whose events are needed outside → the columns that are new."""
    following: tuple[LaterPass, ...]
    beside: tuple[Pass, ...] = ()
    """Further loops over the same events, for stages that would make one too large to compile."""

    @property
    def exports(self) -> tuple[Export, ...]:
        """All that leaves it."""
        return (*self.leaving.values(), *(later.export for later in self.following))


def passes(stages: Sequence[CompiledStage], root: Value | None = None, given: tuple[Numpy, ...] = ()) -> Pass:
    """The first pass over these stages, with those that follow it."""
    here: list[CompiledStage] = []
    waiting: dict[Value | None, list[CompiledStage]] = {}
    place: dict[str, Value | None] = {}
    for stage in stages:
        wanted = {place[name] for name in stage.inputs if name in place}
        if not wanted and not _calls(stage, given):
            here.append(stage)
            continue
        if len(wanted) > 1:
            raise NotCompiledError("branches meet again that numpy computes apart")
        place[stage.stage] = wanted.pop() if wanted else stage.incoming
        waiting.setdefault(place[stage.stage], []).append(stage)
    first, *others = _of_bearable_size(here, given) or [[]]
    later = tuple(_following(start, group, given) for start, group in waiting.items())
    beside = tuple(Pass(root, given, tuple(one), _leaving(one), ()) for one in others)
    return Pass(root, given, tuple(first), _leaving(first), later, beside)


def _of_bearable_size(stages: Sequence[CompiledStage], given: tuple[Numpy, ...]) -> list[list[CompiledStage]]:
    """Stages one after the other, cut where a loop would become too large: twice the size takes four times as long."""
    found: list[list[CompiledStage]] = []
    size = LARGEST
    for stage in stages:
        own = len(computed(list(stage.needed()), given)) + _SINK * len(stage.sinks)
        if own > LARGEST:
            raise NotCompiledError(f"stage '{stage.stage}' is too large")
        if size + own > LARGEST:
            found.append([])
            size = 0
        found[-1].append(stage)
        size += own
    return found


def _leaving(stages: Sequence[CompiledStage]) -> dict[str, Export]:
    return {
        stage.stage: Export(stage.outgoing, _new_columns(stage), (stage.stage,)) for stage in stages if stage.leaves
    }


def _new_columns(stage: CompiledStage) -> tuple[Value, ...]:
    """Those that did not come in as they are."""
    values = [value for value in stage.columns.values() if isinstance(value, Value)]
    return tuple(dict.fromkeys(value for value in values if not isinstance(value, Input)))


def _calls(stage: CompiledStage, given: tuple[Numpy, ...]) -> list[Numpy]:
    """What numpy has to compute before the stage can go on, with what is given."""
    found = computed(list(stage.needed()), given)
    return [value for value in found if isinstance(value, Numpy) and value not in given]


def computed(values: list[Value], given: tuple[Numpy, ...]) -> dict[Value, None]:
    """These values and what they come from, down to what is given."""
    found: dict[Value, None] = {}
    waiting = values[::-1]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found[value] = None
            waiting.extend(conditions_of(value.space) if value.space is not None else ())
            waiting.extend(() if value in given else arguments_of(value))
    return found


def _following(start: Value | None, group: list[CompiledStage], given: tuple[Numpy, ...]) -> LaterPass:
    first = [stage for stage in group if stage.incoming is start]
    calls = list(dict.fromkeys(call for stage in first for call in _calls(stage, given)))
    ready = [call for call in calls if not _waits(call, given)]
    used = computed([value for stage in group for value in stage.needed()], ())
    carried = [value for value in given if value in used]
    arguments = [argument for call in ready for argument in call.arguments if isinstance(argument, Value)]
    export = Export(start, tuple(dict.fromkeys([*arguments, *carried])), first[0].inputs)
    return LaterPass(export, tuple(ready), passes(group, start, (*carried, *ready)))


def _waits(call: Numpy, given: tuple[Numpy, ...]) -> bool:
    before = computed(list(arguments_of(call)), given)
    return any(isinstance(value, Numpy) and value not in given for value in before)
