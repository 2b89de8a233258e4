"""Services that are stopped with care, and services that find something gone when they start."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.engine.messages import PoolChanged
from cenote.engine.scaling import PoolState
from cenote.service.allocator.messages import PoolAdded
from cenote.service.client.connection import Connection, connect
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import stop_service
from cenote.service.client.task_flows import changed_task
from cenote.service.server.log import ServiceLog


def test_a_service_that_drains_waits_for_what_runs_and_leaves_the_rest_to_the_next(
    connection: Connection, home: ServiceHome, tmp_path: Path
) -> None:
    pool = connection.create_pool("pool", "local", 1).submit()
    go = tmp_path / "go"
    os.mkfifo(go)
    task = connection.create_task("task", pool, 3)
    task.command = f"[ $INSTANCE_ID = 0 ] && cat {go}; echo $INSTANCE_ID"
    task.submit()
    while not task.record.counts.get("running"):
        task._record = connection._line.ask(changed_task(task.record, 5.0))
    told: list[int] = []
    stopping = threading.Thread(target=lambda: told.append(stop_service(home, drain=True)))
    stopping.start()
    while pool.record.workers:  # until its worker says that it will go
        task._record = connection._line.ask(changed_task(task.record, 0.1))
    go.write_text("go")
    stopping.join(timeout=60)
    assert told == [1]
    assert not home.is_taken
    same = connect().task(task.uuid)
    assert same.wait(timeout=60)
    assert sorted(same.stdout().split()) == ["1", "2", "go0"]
    assert same.instances[0].attempts == 1


def test_stopping_says_how_many_instances_ran(connection: Connection, home: ServiceHome) -> None:
    pool = connection.create_pool("pool", "local", 2).submit()
    task = connection.create_task("task", pool, 2)
    task.command = "sleep 600"
    task.submit()
    while task.record.counts.get("running", 0) < 2:
        task._record = connection._line.ask(changed_task(task.record, 5.0))
    assert stop_service(home) == 2
    connect().task(task.uuid).cancel()


def test_a_pool_that_cannot_be_used_any_more_says_why_and_the_others_work(home: ServiceHome) -> None:
    home.prepare()
    with ServiceLog(home.path) as log:
        log.append([PoolAdded(at=1.0, pool=PoolDefinition(name="far", workers=1, strategy="slurm"))])
    with connect() as connection, connection.create_pool("near", "local", 1) as pool:
        task = connection.create_task("task", pool, 1)
        task.command = "true"
        assert task.wait(timeout=60)
        far = connection.pool("far").record
        assert (far.state, far.workers) == ("Failure", 0)
        assert "listens on this one only" in far.reason


def test_a_pool_that_failed_is_tried_again_by_the_next_service(home: ServiceHome) -> None:
    home.prepare()
    with ServiceLog(home.path) as log:
        pool = PoolDefinition(name="unlucky", workers=1)
        failed = PoolChanged(at=2.0, pool="unlucky", state=PoolState.FAILURE, reason="the disk of its node was full")
        log.append([PoolAdded(at=1.0, pool=pool), failed])
    with connect() as connection:
        task = connection.create_task("task", "unlucky", 1)
        task.command = "true"
        assert task.wait(timeout=60)


def test_a_home_that_cannot_be_written_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.delenv("CENOTE_SERVICE", raising=False)
    with pytest.raises(CenoteError, match="XDG_STATE_HOME"):
        connect()


def test_a_service_that_cannot_start_is_told_with_its_reason_not_with_its_hint(home: ServiceHome) -> None:
    home.prepare()
    with sqlite3.connect(home.path / "service.sqlite") as log:
        log.execute("pragma user_version = 999")
    with pytest.raises(CenoteError, match=r"did not start: .*a newer version of Cenote wrote this"):
        connect()
