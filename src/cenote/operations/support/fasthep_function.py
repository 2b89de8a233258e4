"""Let a function that was written for FAST-HEP be an operation, by the description that stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote import errors
from cenote.jagged import ak
from cenote.names import listed
from cenote.operations.interface import Operation, Result
from cenote.operations.support.events import DatasetInfo, Events, flat
from cenote.operations.support.fasthep_spec import Described, described_as, input_name, stream_of
from cenote.plugins.normal_form import in_order, plain

ROW = "_cenote_row"
"""A field that travels through the function: it says which events came out."""


class FasthepFunction(Described, Operation):
    """A function `f(*, stream, <params>, ctx) -> stream` of a package that was written for FAST-HEP."""

    def reads(self) -> tuple[str, ...]:
        """What the description requires; without that, everything."""
        if "requires" not in self.description:
            return tuple(self._columns)
        return self.symbols("requires")

    def adds(self) -> tuple[str, ...]:
        """What the description provides."""
        return self.symbols("provides")

    def sees(
        self,
        dataset: DatasetInfo,
        datasets: Sequence[str],  # noqa: ARG002  # it gets none
        constants: Mapping[str, Any],  # noqa: ARG002  # the same
    ) -> Mapping[str, Any]:
        """What it is told of the dataset, if it asks for that."""
        return {"dataset": in_order(plain(_context(dataset)))} if self.is_told("ctx") else {}

    def run(self, events: Events) -> Result:
        """Call it with a stream of the columns that it requires, and take what it provides."""
        wanted = self.reads() if "requires" in self.description else events.names
        given = {name: events[name] for name in wanted if name in events}
        stream = ak.zip({**given, ROW: np.arange(events.size)}, depth_limit=1)
        returned = stream_of(self.call(_context(events.dataset), **{input_name(self.description): stream}))
        rows = self._rows(returned, events.size)
        if missing := [name for name in self.adds() if name not in returned.fields]:
            raise TypeError(f"it did not return the column {listed(missing)}, which its description provides")
        kept = np.zeros(events.size, np.bool_)
        kept[rows] = True
        return Result(events.where(kept).with_columns({name: flat(returned[name]) for name in self.adds()}))

    def _rows(self, returned: Any, size: int) -> Any:
        """Which events came out, in their order."""
        if ROW not in returned.fields:
            if len(returned) == size:
                return np.arange(size)
            raise TypeError("it returned other rows in a new array: it is not known of which events they are")
        rows = ak.to_numpy(returned[ROW])
        if np.any(np.diff(rows) <= 0):
            raise TypeError("it changed the order of events, or repeated some")
        return rows


def _context(dataset: DatasetInfo) -> dict[str, Any]:
    """What it is told of the dataset."""
    facts = {"name": dataset.name, "eventtype": dataset.eventtype, **dataset.metadata}
    return {"dataset_name": dataset.name, "dataset": facts, "dataset_eventtype": dataset.eventtype}


def adapted(
    function: Callable[..., Any], name: str, what: str, description: Mapping[str, Any] | None = None
) -> type[FasthepFunction]:
    """An operation of a function. Raises `bad-plugin` where nothing, or something else, is said of it."""
    hint = "decorate it with `@operation(...)`"
    made = described_as(
        FasthepFunction, function, name, kind="transform", what=what, hint=hint, description=description
    )
    result = dict(made.description.get("result") or {})
    inner = [one.get("kind") for one in result.values() if isinstance(one, Mapping)]
    kinds = {*inner, *(one for one in result.values() if isinstance(one, str))}
    if result and "event_stream" not in kinds:
        words = f"{what} makes something else than events"
        raise errors.error(errors.BAD_PLUGIN, words, hint="write it as a product with `@operation(..., product=...)`")
    return made
