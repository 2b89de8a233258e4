"""A long-lived pool, as programs see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from cenote.service.client.functions.dispatcher import Dispatcher
from cenote.service.client.functions.executor import PoolExecutor
from cenote.service.client.functions.mapping import MapResults, MapTerms, mapped
from cenote.service.client.line import Line
from cenote.service.client.pool_flows import PoolFlows
from cenote.service.client.records import LivePoolRecord

Item = TypeVar("Item")
Value = TypeVar("Value")


class PoolHandle(PoolFlows):
    """Workers that stay: reserved once, and ready for many tasks. A context closes it when its tasks are over."""

    def __init__(self, line: Line, *, name: str, profile: str, workers: int) -> None:
        super().__init__(name=name, profile=profile, workers=workers)
        self._line = line

    @classmethod
    def of(cls, line: Line, record: LivePoolRecord) -> Self:
        """One that is there."""
        made = cls(line, name=record.title or record.name, profile=record.profile, workers=record.wanted or 0)
        return made.known_as(record)

    @property
    def record(self) -> LivePoolRecord:
        """How it is now."""
        return self._line.carry_out(self.record_flow())

    @property
    def state(self) -> str:
        """`Submitted`, `PartiallyDispatched`, …, `FullyExecuting`, `Closing`, `Closed`; `PendingDelete` while it is
        removed."""
        return "" if self._record is None else self.record.state

    def submit(self) -> Self:
        """Ask for its workers; tasks may be submitted at once, and wait for them."""
        self._line.carry_out(self.submit_flow())
        return self

    def wait(self, *states: str, timeout: float | None = None) -> str:
        """Until it is in one of these states, or all its workers run; returns the state."""
        return self._line.carry_out(self.wait_flow(states, timeout))

    def map(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        *,
        chunksize: int | None = None,
        ordered: bool = True,
        return_exceptions: bool = False,
        timeout: float | None = None,
        retries: int = 0,
        progress: bool = False,
        show: bool = False,
    ) -> MapResults[Value]:
        """What a function returns for each item, called on the workers of this pool. It begins at once, and takes items
        as fast as results are taken.

        `chunksize` calls are made by one process; without it, as many as take about half a second. `ordered=False`
        gives results as they come. The first call that fails raises here and ends the others; with
        `return_exceptions`, exceptions come in the place of results. A call that takes longer than `timeout` seconds is
        ended; one that failed is made again `retries` times. `progress` writes how far it is to stderr, and `show` what
        calls print.
        """
        terms = MapTerms(
            chunksize=chunksize,
            ordered=ordered,
            return_exceptions=return_exceptions,
            timeout=timeout,
            retries=retries,
            progress=progress,
            show=show,
        )
        return mapped(self.dispatcher(), function, items, terms)

    def executor(self, *, timeout: float | None = None, retries: int = 0) -> PoolExecutor:
        """An executor as `concurrent.futures` has them, whose calls are made on the workers of this pool. A call that
        takes longer than `timeout` seconds is ended; one that failed is made again `retries` times."""
        return PoolExecutor(self, timeout=timeout, retries=retries)

    def dispatcher(self) -> Dispatcher:
        """The way of calls to this pool, which is submitted if it was not."""
        return Dispatcher(self._line, self.submit().id)

    def close(self) -> None:
        """No more tasks: its workers go as soon as the instances that they run are over."""
        self._line.carry_out(self.close_flow())

    def delete(self) -> None:
        """Close it, stop what it runs, and forget it."""
        self._line.carry_out(self.delete_flow())

    def __enter__(self) -> Self:
        return self.submit()

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self._line.carry_out(self.leave_flow(finish=kind is None))
