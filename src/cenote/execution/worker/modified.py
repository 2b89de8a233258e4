"""Put modifiers around the call of a stage, and hold them to what they declare."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.modifiers.interface import Effect, Modifier, Run, StageCall
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Column, Events
from cenote.common.arrays import ak, is_awkward
from cenote.common.signals import Interrupted
from cenote.common.text import compiled_together, first_to_last, listed
from cenote.execution.worker.compiled_group import CompiledGroup
from cenote.execution.worker.failure import ModifierFailure
from cenote.execution.worker.run_plugins import RunPlugins
from cenote.execution.worker.task_spec import Piece, TimeLimit
from cenote.execution.worker.task_work import TaskWork
from cenote.planning.plan import PlannedModifier, Step


class ModifierMisbehavedError(TypeError):
    """A modifier did something that its effect does not allow."""


def run_modified(modifiers: Sequence[tuple[Modifier, StageCall]], run: Run, events: Events) -> Result:
    """Call the stage with the modifiers around it; the first one is the outermost."""
    blame = _Blame()
    for modifier, call in reversed(modifiers):
        run = partial(_around, modifier, call, blame, run)
    try:
        return run(events)
    except BaseException as problem:  # somebody's code may raise anything
        if problem is not blame.problem or isinstance(problem, Interrupted):
            raise
        raise ModifierFailure(blame.modifier, problem) from problem


@dataclass
class _Blame:
    """Which modifier raised last, and what: those around it see that itself, as `retry` must."""

    modifier: str = ""
    problem: BaseException | None = None


def _around(modifier: Modifier, call: StageCall, blame: _Blame, run: Run, events: Events) -> Result:
    guard = _GUARDS[modifier.effect](run, events, call)
    try:
        return guard.checked(modifier.around(guard.run, guard.shown, call))
    except BaseException as problem:
        if problem is not guard.raised_inside:
            blame.modifier, blame.problem = call.modifier, problem
        raise
    finally:
        guard.end()


class _Trusted:
    """For modifiers that may change anything."""

    def __init__(self, run: Run, events: Events, call: StageCall) -> None:
        self._run, self._events, self._call = run, events, call
        self.shown = events
        self._known = [events]
        """What went in, and what the stage returned."""
        self.raised_inside: BaseException | None = None
        """What came from the stage itself, or from a modifier further inside."""

    def run(self, events: Events) -> Result:
        """The stage, for the modifier to call."""
        given = self.given(events)
        try:
            result = self._run(given)
        except BaseException as problem:
            self.raised_inside = problem
            raise
        self._known.append(result.events)
        return result

    def given(self, events: Events) -> Events:
        """The events for the stage."""
        return events

    def end(self) -> None:
        """The modifier is done, well or not."""

    def checked(self, returned: Result) -> Result:
        """What the modifier returned, if later stages can go on with it."""
        _demand_result(returned)
        events = returned.events
        for name in self._call.adds:
            if name not in events.columns and name in (self._events.live or ()):
                raise ModifierMisbehavedError(f"loses column '{name}', which the stage adds and later stages read")
        for name, column in self._own(events).items():
            if len(column) != events.size:
                told = f"{len(column)} values for {events.size} events"
                raise ModifierMisbehavedError(f"returned column '{name}' with {told}")
        return returned

    def _own(self, events: Events) -> dict[str, Column]:
        """The columns that come neither from before the stage nor from the stage."""
        return {
            name: column
            for name, column in events.columns.items()
            if not any(column is known.columns.get(name) for known in self._known)
        }


class _Executing(_Trusted):
    """For modifiers that compute the stage in their own way: they make the columns that it declares, and no others.
    What they are given cannot be written to while they are at work."""

    def __init__(self, run: Run, events: Events, call: StageCall) -> None:
        super().__init__(run, events, call)
        self._layouts = {name: one.layout for name, one in events.columns.items() if is_awkward(one)}
        self._lock = _Locked(events.columns.values())

    def run(self, events: Events) -> Result:
        self._lock.release()
        try:
            return super().run(events)
        finally:
            self._lock.take()

    def end(self) -> None:
        self._lock.release()

    def checked(self, returned: Result) -> Result:
        super().checked(returned)
        for name, layout in self._layouts.items():
            column = self._events.columns[name]
            if column.layout is not layout:
                raise ModifierMisbehavedError(f"changes column '{name}' in place: {_ALLOWED}")
        before = self._events.columns
        for name in self._own(returned.events):
            if name not in before and name not in self._call.adds:
                raise ModifierMisbehavedError(f"adds column '{name}', which the stage does not: {_ALLOWED}")
        if returned.events.size == self._events.size:
            self._refuse_replaced(returned.events)
        return returned

    def _refuse_replaced(self, events: Events) -> None:
        """What an earlier stage left on a GPU may have come home."""
        before = self._events.columns
        for name in self._own(events):
            if name not in self._call.adds and _is_on_host(before[name]):
                raise ModifierMisbehavedError(f"changes column '{name}', which the stage does not: {_ALLOWED}")


class _Locked:
    """Arrays that nobody can write to, until they are released. They stay the arrays that they are: a modifier knows by
    that which of them it has moved to a GPU before."""

    def __init__(self, columns: Iterable[Column]) -> None:
        found = [array for column in columns for array in _arrays_of(column)]
        self._arrays = sorted((array for array in found if array.flags.writeable), key=_views_above)
        self.take()

    def take(self) -> None:
        for array in self._arrays:
            array.flags.writeable = False

    def release(self) -> None:
        for array in self._arrays:  # a view can be written to only where that which it is of can be
            array.flags.writeable = True


def _views_above(array: NDArray[Any]) -> int:
    return 1 + _views_above(array.base) if isinstance(array.base, np.ndarray) else 0


def _arrays_of(column: Column) -> Iterator[NDArray[Any]]:
    """The arrays on the host that hold its values."""
    if isinstance(column, np.ndarray):
        yield column
    elif is_awkward(column) and _is_on_host(column):
        yield from ak.to_buffers(column)[2].values()


class _ShownResult(Result):
    """The result of a stage as an observer sees it: its product is a copy, made when it is looked at."""

    def __init__(self, events: Events, product: Any | None = None, *, original: Result | None = None) -> None:
        super().__init__(events)
        self.__dict__.update({"_copy": product} if original is None else {"_original": original})

    def __getattribute__(self, name: str) -> Any:  # Any: whatever the stage makes
        if name != "product":
            return super().__getattribute__(name)
        own = self.__dict__
        if "_copy" not in own:
            own["_copy"] = deepcopy(own["_original"].product)
        return own["_copy"]


class _Observed(_Trusted):
    """For modifiers that only look: the stage gets the events as they were, and its result goes on as it is."""

    def __init__(self, run: Run, events: Events, call: StageCall) -> None:
        super().__init__(run, events, call)
        self.shown = _read_only(events)
        self._results: list[tuple[Result, Result]] = []
        """What the stage returned, as the modifier sees it and as it is."""

    def run(self, events: Events) -> Result:
        result = super().run(events)
        shown = _ShownResult(_read_only(result.events), original=result)
        self._results.append((shown, result))
        return shown

    def given(self, events: Events) -> Events:
        if events is not self.shown:
            self._refuse_changes(events)
        return self._events

    def _refuse_changes(self, events: Events) -> None:
        if not isinstance(events, Events):
            raise ModifierMisbehavedError(f"gives the stage {_kind(events)} instead of events")
        before, after = self.shown.columns, events.columns
        other = [name for name in {**before, **after} if before.get(name) is not after.get(name)]
        if other or events.size != self.shown.size:
            what = f"column {listed(other)}" if other else "the number of events"
            raise ModifierMisbehavedError(f"changes {what} before the stage sees it: {_ALLOWED}")

    def checked(self, returned: Result) -> Result:
        _demand_result(returned)
        for shown, result in self._results:
            if returned is shown:
                return result
        what = "returns another result than that of the stage" if self._results else "does not run the stage"
        raise ModifierMisbehavedError(f"{what}: {_ALLOWED}")


_GUARDS: dict[Effect, type[_Trusted]] = {
    Effect.OBSERVES: _Observed,
    Effect.EXECUTES: _Executing,
    Effect.CHANGES: _Trusted,
}
_ALLOWED = "only a modifier that declares effect = Effect.CHANGES may"


def _demand_result(returned: object) -> None:
    if not isinstance(returned, Result):
        raise ModifierMisbehavedError(f"returned {_kind(returned)} instead of the result of the stage")
    found: object = returned.events
    if not isinstance(found, Events):
        raise ModifierMisbehavedError(f"returned a result with {_kind(found)} instead of events")


def _read_only(events: Events) -> Events:
    return replace(
        events,
        columns=_Shown(events.columns, _looked_at),
        index=None if events.index is None else _looked_at(events.index),
        products=_Shown(events.products, deepcopy),
        constants=_Shown(events.constants, deepcopy),
        dataset=replace(events.dataset, metadata=_Shown(events.dataset.metadata, deepcopy)),
    )


class _Shown(Mapping[str, Any]):
    """What an observer cannot change, each value made so when it is looked at: most modifiers look at few, or none."""

    def __init__(self, values: Mapping[str, Any], show: Callable[[Any], Any]) -> None:
        self._values, self._show = values, show
        self._shown: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # Any: a column, a product, whatever the author wrote
        if name not in self._shown:
            self._shown[name] = self._show(self._values[name])
        return self._shown[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _looked_at(column: Column) -> Column:
    """The same values, which cannot be written to; what lies on a GPU has no such guard."""
    if is_awkward(column):
        return _looked_at_lists(column) if _is_on_host(column) else ak.Array(column.layout, behavior=column.behavior)
    return _protected(column) if isinstance(column, np.ndarray) else column


def _looked_at_lists(column: ak.Array) -> ak.Array:
    """`ak.flatten` and `ak.to_numpy` give arrays of the same memory, and a new field is a change in place."""
    form, length, buffers = ak.to_buffers(column)
    kept = {name: _protected(buffer) for name, buffer in buffers.items()}
    return ak.from_buffers(form, length, kept, behavior=column.behavior, attrs=column.attrs)


def _protected(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _is_on_host(column: Column) -> bool:
    return isinstance(column, np.ndarray) or (is_awkward(column) and ak.backend(column) == "cpu")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


# The modifiers around stages, each with what it may know of one call.


Calls = list[tuple[Modifier, StageCall]]


class ModifierCalls:
    """Makes the calls that the modifiers of a run take part in."""

    def __init__(self, plugins: RunPlugins) -> None:
        self._plugins = plugins

    def around(self, work: TaskWork, piece: Piece, step: Step, operation: Operation) -> Calls:
        """Those around a stage."""
        whole = work.segment.scope == "partition"
        following = self._plugins.following(work.segment, step, piece.partition.dataset) if whole else None
        known = {"stage": step.stage, "operation": operation, "reads": step.reads, "adds": step.adds}
        return self._made(work, piece, step, known | {"following": following})

    def around_group(self, work: TaskWork, piece: Piece, group: CompiledGroup, loop: Operation) -> Calls:
        """Those around compiled stages, which are the same for all of them."""
        if not group.fused.modifiers:
            return []
        known = {"stage": first_to_last(group.stages), "stages": group.stages, "operation": loop}
        return self._made(work, piece, group.fused.steps[0], known | {"reads": group.reads, "adds": group.adds})

    def _made(self, work: TaskWork, piece: Piece, step: Step, known: Mapping[str, Any]) -> Calls:
        partition, whole = piece.partition, work.segment.scope == "partition"
        made = self._plugins.modifiers(work.segment, step)
        return [
            (
                made[planned.name],
                StageCall(
                    modifier=planned.name,
                    dataset=partition.dataset if work.segment.scope != "run" else "",
                    file=partition.url if whole else "",
                    entries=(partition.start, partition.stop) if whole else (0, 0),
                    kept=work.kept.setdefault(planned.name, {}),
                    seconds=lambda: time.perf_counter() - work.began,
                    memory=work.memory,
                    limit=partial(_limit, work, step.stage, planned),
                    measures=planned.measures,
                    warnings=work.warnings,
                    files=work.files,
                    **known,
                ),
            )
            for planned in step.modifiers
        ]


def observed(calls: Sequence[tuple[Modifier, StageCall]], loop: Operation, events: Events) -> Result:
    """What a loop returns; a modifier that fails says which stages it is around."""
    try:
        return run_modified(calls, loop.run, events)
    except ModifierFailure as failure:
        if len(calls[0][1].stages) > 1:
            failure.around = compiled_together(calls[0][1].stages)
        raise


def _limit(work: TaskWork, stage: str, modifier: PlannedModifier, seconds: float) -> None:
    if not modifier.limits_time:
        raise ValueError(
            "a modifier that calls `limit` declares `limits_time=True`: a process is then used that can end"
        )
    if not 0 < seconds < math.inf:
        raise ValueError(f"a limit is a number of seconds above zero, not {seconds}")
    work.on_step(stage, TimeLimit(math.ceil(seconds), modifier.name))
