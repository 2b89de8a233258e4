"""A function for each of many items, on the workers of a pool."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from cenote.common.errors import CenoteError
from cenote.service.client.connection import Connection
from cenote.service.client.functions import dispatcher as dispatching
from cenote.service.client.functions.call_files import (
    NotPicklableError,
    ProcessEndedError,
    RemoteError,
    RemoteTraceback,
)
from cenote.service.client.pool_handle import PoolHandle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which only pytest can import


class OddError(Exception):
    """Cannot be put together again from its words."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_results_come_in_the_order_of_the_items(pool: PoolHandle) -> None:
    added = 5  # a closure travels along
    assert list(pool.map(lambda item: item + added, (number for number in range(300)))) == list(range(5, 305))


def test_results_come_as_they_are_ready_where_that_is_asked_for(pool: PoolHandle, marks: Path) -> None:
    def wait_if_first(item: int) -> int:
        while item == 0 and not (marks / "go").exists():
            time.sleep(0.01)
        return item

    results = pool.map(wait_if_first, [0, 1], chunksize=1, ordered=False)
    assert next(results) == 1
    (marks / "go").touch()
    assert list(results) == [0]


def test_what_a_call_raises_is_raised_with_the_traceback_of_the_worker(pool: PoolHandle) -> None:
    def divide(item: int) -> float:
        return 1 / item

    with pytest.raises(ZeroDivisionError) as raised:
        list(pool.map(divide, [2, 0, 1]))
    assert isinstance(raised.value.__cause__, RemoteTraceback)
    assert "in divide" in str(raised.value.__cause__)


def test_a_call_that_raises_stop_iteration_does_not_pass_for_the_end_of_the_results(pool: PoolHandle) -> None:
    def first_of(items: list[int]) -> int:
        return next(iter(items))

    with pytest.raises(RuntimeError, match=r"a call of map of .*first_of raised StopIteration"):
        list(pool.map(first_of, [[1], [], [2]]))


def test_only_the_item_fails_that_ends_its_process(pool: PoolHandle, marks: Path) -> None:
    def work(item: int) -> int:
        (marks / f"{item}-{os.getpid()}").touch()
        match item:
            case 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 3:
                os._exit(7)
            case 5:
                sys.exit("enough")
            case 6:
                time.sleep(600)
        return item

    found = list(pool.map(work, range(8), chunksize=8, return_exceptions=True, timeout=2))
    assert [found[number] for number in (0, 2, 4, 7)] == [0, 2, 4, 7]
    assert str(found[1]) == "item 1 of map of work ended its process: ended by SIGSEGV"
    assert str(found[3]) == "item 3 of map of work ended its process: exit code 7"
    assert str(found[5]) == "item 5 of map of work ended its process: SystemExit: enough", "and not this program's"
    assert isinstance(found[5], ProcessEndedError)
    assert isinstance(found[6], TimeoutError)
    assert str(found[6]) == "item 6 of map of work took longer than 2 s"
    assert sorted(file.name.split("-")[0] for file in marks.iterdir()) == list("01234567"), "each was called once"


def test_calls_that_failed_are_made_again(pool: PoolHandle, marks: Path) -> None:
    def fail_once(item: int) -> int:
        first = not (marks / f"{item}").exists()
        (marks / f"{item}").touch()
        if first and item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if first:
            raise ValueError(item)
        return item

    assert list(pool.map(fail_once, range(4), chunksize=2, retries=1)) == list(range(4))
    with pytest.raises(ProcessEndedError, match="exit code 0, before it returned anything"):
        list(pool.map(lambda _: os._exit(0), [0]))
    with pytest.raises(ProcessEndedError, match="SIGKILL"):
        list(pool.map(lambda _: os.kill(os.getpid(), signal.SIGKILL), [0], retries=1))


def test_what_cannot_travel_is_named(pool: PoolHandle) -> None:
    lock = threading.Lock()
    with pytest.raises(NotPicklableError, match="map of <lambda> cannot travel to a worker: cannot pickle"):
        pool.map(lambda _: lock.locked(), [1])
    found = list(pool.map(type, [1, lock, 2], return_exceptions=True, chunksize=3))
    assert (found[0], found[2]) == (int, int)
    assert "item 1 of map of type cannot travel to a worker" in str(found[1])

    def odd(item: int) -> object:
        if item == 0:
            return threading.Lock()
        raise OddError(1, 2)

    returned, raised = pool.map(odd, [0, 1], return_exceptions=True)
    assert isinstance(returned, NotPicklableError)
    assert "the call returned a lock, which cannot travel back: cannot pickle" in str(returned)
    assert isinstance(raised, RemoteError)
    assert str(raised) == "OddError: 1 and 2"


def test_classes_of_the_program_come_back_as_they_are(pool: PoolHandle) -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    found = list(pool.map(lambda point: Point(2 * point.x), [Point(1), Point(2)]))
    assert [type(point) for point in found] == [Point, Point]
    assert [point.x for point in found] == [2, 4]


def test_modules_beside_the_program_are_found(
    pool: PoolHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_program.py").write_text("def cube(x):\n    return x**3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import beside_the_program  # type: ignore[import-not-found]

    assert list(pool.map(beside_the_program.cube, [1, 2, 3])) == [1, 8, 27]


def test_many_items_are_taken_no_faster_than_their_results(pool: PoolHandle) -> None:
    taken = 0

    def items() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield bytes(10)

    results = pool.map(len, items(), chunksize=100)
    assert next(results) == 10
    assert taken < 20_000
    results.close()
    assert list(results) == []


def test_a_map_that_nobody_takes_results_of_is_stopped(pool: PoolHandle, connection: Connection) -> None:
    def sleep(_: int) -> None:
        time.sleep(600)

    results = pool.map(sleep, range(2))
    while not (found := [task for task in connection.tasks() if task.name.startswith("map of sleep")]):
        time.sleep(0.01)
    del results
    task = found[0]
    assert not task.wait(timeout=60)
    assert task.state == "Cancelled"


def test_large_results_come_back_whole(pool: PoolHandle) -> None:
    sizes = [3_000_000, 10, 300_000]
    assert [len(found) for found in pool.map(bytes, sizes)] == sizes


def test_an_empty_map_is_empty_and_nonsense_is_refused(pool: PoolHandle) -> None:
    assert list(pool.map(abs, [])) == []
    with pytest.raises(TypeError, match="3 cannot be called"):
        pool.map(3, [1])  # type: ignore[arg-type]  # what is wrong is the point
    for wrong in ({"chunksize": 0}, {"timeout": 0}, {"retries": -1}):
        with pytest.raises(CenoteError, match="should"):
            pool.map(abs, [1], **wrong)  # type: ignore[arg-type]  # what is wrong is the point


def test_what_calls_print_is_kept_and_shown_where_that_is_asked_for(
    pool: PoolHandle, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    def greet(item: int) -> None:
        print("hello", item)  # noqa: T201

    list(pool.map(greet, range(3), chunksize=3, show=True, progress=True))
    printed = capsys.readouterr()
    assert printed.out == "hello 0\nhello 1\nhello 2\n"
    assert printed.err.endswith("map of greet: 3 of 3 items done\n")
    task = next(task for task in connection.tasks() if task.name.startswith("map of greet"))
    assert "hello 2" in task.stdout()


def test_tasks_are_named_by_their_function_and_leave_no_files(pool: PoolHandle, connection: Connection) -> None:
    list(pool.map(abs, range(6), chunksize=6))
    task = next(task for task in connection.tasks() if task.name == "map of abs × 6")
    assert task.state == "Success"


def test_another_python_is_refused_before_anything_runs(pool: PoolHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "PYTHON", "2.7")
    with pytest.raises(CenoteError, match=r"this program runs Python 2\.7, and the workers of the service Python 3\."):
        pool.map(abs, [1])
