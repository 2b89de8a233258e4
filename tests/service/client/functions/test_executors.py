"""An executor as the standard library documents them, whose calls are made on a pool."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import pytest

import cenote
from cenote.common.errors import CenoteError
from cenote.service.client.functions.call_files import NotPicklableError
from cenote.service.client.pool_handle import PoolHandle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which only pytest can import


def wait_for(path: Path) -> str:
    while not path.exists():
        time.sleep(0.01)
    return path.name


def test_calls_return_and_raise_as_they_would_here(pool: PoolHandle) -> None:
    with cenote.PoolExecutor(pool) as executor:
        powers = [executor.submit(pow, 2, number) for number in range(100)]
        named = executor.submit(int, "101", base=2)
        wrong = executor.submit(int, "seven")
        elsewhere = executor.submit(os.getpid)
    assert [future.result(0) for future in powers] == [2**number for number in range(100)]
    assert named.result(0) == 5
    assert isinstance(wrong.exception(0), ValueError)
    assert elsewhere.result(0) != os.getpid()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


def test_futures_are_those_of_the_standard_library(pool: PoolHandle, marks: Path) -> None:
    with pool.executor() as executor:
        slow, quick = executor.submit(wait_for, marks / "go"), executor.submit(abs, -1)
        done, waiting = concurrent.futures.wait([slow, quick], return_when="FIRST_COMPLETED", timeout=60)
        assert (done, waiting) == ({quick}, {slow})
        with pytest.raises(TimeoutError):
            slow.result(timeout=0.01)
        (marks / "go").touch()
        assert {future.result() for future in concurrent.futures.as_completed([slow, quick], 60)} == {1, "go"}


def test_what_was_not_sent_can_be_cancelled(pool: PoolHandle, marks: Path) -> None:
    executor = pool.executor()
    first = executor.submit(wait_for, marks / "go")
    while not first.running():
        time.sleep(0.01)
    many = [executor.submit(wait_for, marks / "go") for _ in range(200)]
    assert not first.cancel()
    assert many[-1].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    assert many[-2].cancelled()
    (marks / "go").touch()
    assert first.result(60) == "go"
    executor.shutdown()


def test_map_takes_several_iterables_and_keeps_order(pool: PoolHandle) -> None:
    with pool.executor() as executor:
        assert list(executor.map(pow, [2, 3, 4], [5, 6, 7])) == [32, 729, 16384]
        assert list(executor.map(abs, range(-50, 0), chunksize=20, buffersize=10)) == list(range(50, 0, -1))
        with pytest.raises(CenoteError, match="`buffersize` should be at least 1, not -1"):
            executor.map(abs, [1], buffersize=-1)


def test_map_waits_no_longer_than_it_is_told(pool: PoolHandle, marks: Path) -> None:
    with pool.executor() as executor:
        results = executor.map(wait_for, [marks / "go"], timeout=0.1)
        with pytest.raises(TimeoutError):
            next(results)
        (marks / "go").touch()


def test_what_cannot_travel_is_the_exception_of_its_future(pool: PoolHandle) -> None:
    with pool.executor() as executor, (Path(__file__)).open("rb") as file:
        assert isinstance(executor.submit(len, file).exception(60), NotPicklableError)
        assert executor.submit(len, "abc").result(60) == 3


def test_a_program_that_forgets_to_shut_down_waits_for_its_calls(pool: PoolHandle, tmp_path: Path) -> None:
    script = tmp_path / "forgetful.py"
    script.write_text(
        "import cenote, pathlib, sys\n"
        "def mark(path):\n"
        "    pathlib.Path(path).touch()\n"
        f"executor = cenote.connect(start=False).pool({pool.id!r}).executor()\n"
        "for number in range(5):\n"
        "    executor.submit(mark, f'{sys.argv[1]}/{number}')\n"
    )
    marks = tmp_path / "made"
    marks.mkdir()
    subprocess.run([sys.executable, script, marks], check=True, timeout=120)
    assert len(list(marks.iterdir())) == 5
