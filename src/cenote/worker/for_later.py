"""Keep what dear stages do to events for later runs, and give it to tasks instead of running them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cenote.engine.messages import KeptStats
from cenote.operations.support.events import Events
from cenote.plan.plan import Step, columns_of, events_of
from cenote.worker.results.kept_events import (
    NotKeptError,
    data_in,
    done_again,
    from_kept,
    is_too_cheap,
    kept_data,
    size_of,
    what_it_did,
    within,
)
from cenote.worker.results.packed_events import PackedEvents
from cenote.worker.results.store import DamagedResultError
from cenote.worker.task_spec import Piece
from cenote.worker.task_work import TaskWork


class ForLater:
    """Writes and reads what tasks keep beside their results."""

    def __init__(self, path: Callable[[str], Path]) -> None:
        self._path = path
        """Where a result of this name lies, for those who look after it."""

    def keep_columns(self, work: TaskWork, step: Step, before: Events, after: Events) -> None:
        """A step has run; what it did is kept if that was dear."""
        product, seconds = columns_of(step.stage), work.stats[step.stage].seconds
        if product not in work.spec.for_later or step.for_later is None:
            return
        always = _always(step)
        if always or not is_too_cheap(seconds):
            did = what_it_did(before, after, step.for_later)
            if did is not None:
                self._keep(work, product, did, seconds, always=always)

    def keep_events(self, work: TaskWork, step: Step, events: Events) -> None:
        """Events leave the task; they are kept if what led to them was dear."""
        product = events_of(step.stage)
        seconds = work.spared + sum(stats.seconds for stats in work.stats.values())
        if product in work.spec.for_later:
            self._keep(work, product, events, seconds, always=_always(step))

    def _keep(self, work: TaskWork, product: str, events: Events, seconds: float, *, always: bool) -> None:
        data = kept_data(events, seconds, always=always)
        if data is not None:
            work.bytes_out += work.exchange.write(work.spec.for_later[product], {product: data})
            work.kept_for_later[product] = KeptStats(size_of(data), seconds)

    def given(self, work: TaskWork, piece: Piece, step: Step, before: Events | None, like: Events) -> Events:
        """What a step that does not run gives, for the events that come in, if any do. Those are `like` these, as far
        as it is about where they come from."""
        product = columns_of(step.stage)
        name = work.spec.given[step.stage]
        kept = self._unpacked(work, piece, name, work.exchange.read(name), product, like)
        missing = [name for name in step.for_later or () if name not in kept.columns]
        try:
            if missing:
                raise NotKeptError(f"column '{missing[0]}' was not kept")
            found = kept.keep(step.for_later or ())
            return found if before is None else done_again(found, before)
        except NotKeptError as problem:
            raise self._damaged(name) from problem

    def imported(self, work: TaskWork, piece: Piece, name: str, like: Events) -> Events:
        """Events that an earlier segment handed over, in this run or in an earlier one: what is known beside columns is
        what this run says, as `like` has it."""
        found = work.exchange.read(name)
        if isinstance(found, PackedEvents):
            events = replace(found.unpacked(), dataset=like.dataset, datasets=like.datasets, constants=like.constants)
            return within(events, piece.rows)
        return self._unpacked(work, piece, name, found, next(iter(found), ""), like)

    def _unpacked(
        self, work: TaskWork, piece: Piece, name: str, bundle: Mapping[str, Any], product: str, like: Events
    ) -> Events:
        try:
            data = data_in(bundle, product)
            kept = from_kept(data, like)
        except NotKeptError as problem:
            raise self._damaged(name) from problem
        work.spared += kept.seconds
        work.kept_for_later[product] = KeptStats(size_of(data), kept.seconds, read=True)
        return within(kept.events, piece.rows)

    def _damaged(self, name: str) -> DamagedResultError:
        return DamagedResultError(name, self._path(name))


def _always(step: Step) -> bool:
    return any(modifier.keeps_output for modifier in step.modifiers)
