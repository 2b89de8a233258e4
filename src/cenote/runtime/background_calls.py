"""Make calls to batch systems beside the driver's own work, so that a slow answer stops nothing."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any


def _one_thread() -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="background-call")


class BackgroundCalls:
    """Calls to others: those to the same one are made one after the other, in the order in which they were sent.

    What follows from an answer is done in the thread that calls `hear`.
    """

    def __init__(self, make_executor: Callable[[], Executor] = _one_thread) -> None:
        self._make_executor = make_executor
        self._executors: dict[int, tuple[object, Executor]] = {}
        """Who is called, by identity, and what makes the calls."""
        self._back: queue.SimpleQueue[tuple[Future[Any], Callable[[Future[Any]], Any]]] = queue.SimpleQueue()
        self._under_way: set[Future[Any]] = set()

    def send(self, to: object, call: Callable[[], Any], then: Callable[[Future[Any]], Any]) -> None:
        """Make this call, and `then` what follows from it: its result, or what it raised."""
        if id(to) not in self._executors:
            self._executors[id(to)] = (to, self._make_executor())
        future = self._executors[id(to)][1].submit(call)
        self._under_way.add(future)
        future.add_done_callback(lambda done: self._back.put((done, then)))

    def hear(self) -> None:
        """Do what follows from the answers that are there."""
        while not self._back.empty():
            self._hear_one()

    def finish(self) -> None:
        """Wait for all that was sent, and do what follows from it. Nothing can be sent afterwards.

        All of it is done, though something may raise; what was raised first is raised in the end.
        """
        problems: list[Exception] = []
        while self._under_way:
            try:
                self._hear_one()
            except Exception as problem:  # whatever it is, the others must be heard too
                problems.append(problem)
        for _, executor in self._executors.values():
            executor.shutdown()
        if problems:
            raise problems[0]

    def _hear_one(self) -> None:
        future, then = self._back.get()
        self._under_way.discard(future)
        then(future)
