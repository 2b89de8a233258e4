"""A map goes on when its service is killed and started again, and no call is made twice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from cenote.service.client.connection import Connection, connect
from cenote.service.client.pool_handle import PoolHandle


def test_a_map_outlives_its_service(connection: Connection, pool: PoolHandle, marks: Path) -> None:
    def mark(item: int) -> int:
        time.sleep(0.02)
        with (marks / str(item)).open("a") as file:
            file.write("called\n")
        return item

    results = pool.map(mark, range(100), chunksize=2)
    assert next(results) == 0
    before = connection.service.pid
    os.kill(before, signal.SIGKILL)
    assert connect().service.pid != before
    assert list(results) == list(range(1, 100))
    assert {file.read_text() for file in marks.iterdir()} == {"called\n"}
    assert len(list(marks.iterdir())) == 100
