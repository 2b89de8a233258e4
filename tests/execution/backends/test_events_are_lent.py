"""Workers of one machine have each other's events without sending them; those of other machines have them sent."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dask.config
import numpy as np
import pytest
from dask.sizeof import sizeof
from distributed import Client

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask import parcels
from cenote.execution.backends.dask.doors import SCHEDULER, RunSecurity, SecuredScheduler
from cenote.execution.backends.dask.lending import LendingWorker
from cenote.execution.backends.dask.parcels import LENDS_FROM, LentFile, Parcel, borrowed
from cenote.execution.worker.results.bundle import packed

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="other systems send events")
VALUES = LENDS_FROM // 8
POOL = {"pool": 1}


def a_parcel(start: int = 0, values: int = VALUES) -> Parcel:
    column = np.arange(start, start + values, dtype="f8")
    return Parcel({"a-0": packed(Events({"x": column}, values, DatasetInfo("d")))})


def column_of(parcel: Parcel) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    column: np.ndarray[tuple[int], np.dtype[np.float64]] = parcel.events["a-0"].unpacked()["x"]
    return column


def lent_by(parcel: Parcel) -> LentFile:
    file = parcel.lend()
    assert file is not None
    return file


def test_what_is_borrowed_is_what_was_lent() -> None:
    parcel = a_parcel()
    found = borrowed(lent_by(parcel))
    assert found is not None
    assert np.array_equal(column_of(found), np.arange(VALUES))


def test_another_process_borrows_without_a_copy() -> None:
    file = lent_by(parcel := a_parcel())
    code = (
        "import sys; from cenote.execution.backends.dask.parcels import LentFile, borrowed\n"
        "found = borrowed(LentFile(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))\n"
        "print(int(found.events['a-0'].unpacked()['x'].sum()), 'memfd:cenote' in open('/proc/self/maps').read())"
    )
    words = [str(file.process), str(file.descriptor), file.name]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(int(column_of(parcel).sum())), "True"]


def test_events_are_written_once_however_many_borrow_them() -> None:
    parcel = a_parcel()
    assert lent_by(parcel) == lent_by(parcel)


def test_who_lends_keeps_no_second_copy() -> None:
    parcel = a_parcel()
    private = column_of(parcel)
    lent_by(parcel)
    assert not np.shares_memory(private, column_of(parcel))
    assert not column_of(parcel).flags.writeable


def test_what_was_borrowed_outlives_its_owner() -> None:
    parcel = a_parcel()
    found = borrowed(lent_by(parcel))
    del parcel
    gc.collect()
    assert found is not None
    assert column_of(found)[-1] == VALUES - 1


def test_nothing_is_left_when_the_owner_lets_go() -> None:
    parcel = a_parcel()
    file = lent_by(parcel)
    del parcel
    gc.collect()
    assert borrowed(file) is None
    assert not os.path.lexists(file.path)  # what it leads to has no name, and so "does not exist"


def test_another_file_in_its_place_is_not_taken(tmp_path: Path) -> None:
    file = lent_by(parcel := a_parcel())
    assert borrowed(LentFile(file.process, file.descriptor, "cenote-other")) is None
    with (tmp_path / "f").open("wb") as other:
        assert borrowed(LentFile(file.process, other.fileno(), file.name)) is None
    del parcel


def test_nobody_can_change_what_is_lent() -> None:
    file = lent_by(parcel := a_parcel())
    with pytest.raises(PermissionError):
        os.pwrite(file.descriptor, b"x", 100)
    with pytest.raises(PermissionError):
        os.ftruncate(file.descriptor, 0)
    del parcel


def test_only_so_many_are_lent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(parcels, "_MOST_LENT", len(parcels._lent) + 1)
    first, second = a_parcel(), a_parcel()
    assert first.lend() is not None
    assert second.lend() is None
    del first
    assert second.lend() is not None


def test_a_full_memory_lends_nothing_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = len(parcels._lent)
    monkeypatch.setattr(os, "write", full)
    parcel = a_parcel()
    assert parcel.lend() is None
    assert len(parcels._lent) == before
    assert column_of(parcel)[-1] == VALUES - 1


def test_dask_knows_how_large_events_are_and_sends_their_arrays_as_they_are() -> None:
    parcel = a_parcel()
    beside: list[pickle.PickleBuffer] = []
    body = pickle.dumps(parcel, protocol=5, buffer_callback=beside.append)
    assert sizeof(parcel) == 8 * VALUES
    assert len(body) < 2000
    assert [np.shares_memory(np.frombuffer(one.raw(), "f8"), column_of(parcel)) for one in beside] == [True]
    assert np.array_equal(column_of(pickle.loads(body, buffers=beside)), column_of(parcel))


# on a scheduler


@asynccontextmanager
async def two_workers(folder: Path) -> AsyncIterator[tuple[Client, LendingWorker, LendingWorker]]:
    identities = identities_of("test")
    options = {"host": "127.0.0.1", "dashboard": False}
    with dask.config.set(SCHEDULER):
        security = RunSecurity(identities.driver)
        async with SecuredScheduler(security=security, port=0, local_directory=str(folder), **options) as scheduler:
            options |= {
                "protocol": "tls",
                "security": RunSecurity(identities.workers),
                "nthreads": 1,
                "resources": POOL,
            }
            a = LendingWorker(scheduler.address, name="a", local_directory=str(folder / "a"), **options)
            b = LendingWorker(scheduler.address, name="b", local_directory=str(folder / "b"), **options)
            async with a, b, Client(scheduler.address, asynchronous=True, security=security) as client:
                yield client, a, b


def last_of(parcel: Parcel) -> float:
    return float(column_of(parcel)[-1])


async def _moved(folder: Path, values: int) -> tuple[float, int]:
    """From one worker to the other; also, how many results were sent."""
    async with two_workers(folder) as (client, a, _):
        made = client.submit(a_parcel, 0, values, workers=["a"], resources=POOL, pure=False)
        found = await client.submit(last_of, made, workers=["b"], resources=POOL, pure=False)
        return found, a.transfer_outgoing_count_total


def test_workers_of_a_machine_send_no_events(tmp_path: Path) -> None:
    assert asyncio.run(_moved(tmp_path, VALUES)) == (VALUES - 1, 0)


def test_few_events_are_sent(tmp_path: Path) -> None:
    assert asyncio.run(_moved(tmp_path, 10)) == (9, 1)


@pytest.mark.parametrize("side", ["lend", "borrow"])
def test_events_are_sent_where_they_cannot_be_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    if side == "lend":
        monkeypatch.setattr(parcels, "_CAN_LEND", False)
    else:
        monkeypatch.setattr("cenote.execution.backends.dask.lending.borrowed", lambda _: None)
    assert asyncio.run(_moved(tmp_path, VALUES)) == (VALUES - 1, 1)


_may_end = threading.Event()


def _waits() -> bool:
    return _may_end.wait(60)


async def _is_fetched_ahead(folder: Path) -> bool:
    """Whether a worker has the input of its next task while its only slot is taken."""
    async with two_workers(folder) as (client, _, b):
        made = client.submit(a_parcel, workers=["a"], resources=POOL, key="made")
        running = client.submit(_waits, workers=["b"], resources=POOL, pure=False)
        following = client.submit(last_of, made, workers=["b"], resources=POOL, pure=False)
        try:
            while "made" not in b.data and not following.done():
                await asyncio.sleep(0.01)
            return "made" in b.data and not running.done()
        finally:
            _may_end.set()
            await following


def test_inputs_of_the_next_task_are_fetched_while_one_runs(tmp_path: Path) -> None:
    assert asyncio.run(asyncio.wait_for(_is_fetched_ahead(tmp_path), 60))
