"""The scheduler's one port: who shows no certificate is hung up on, and who shows one is served meanwhile."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dask.config
import pytest
from distributed import Client, SpecCluster

from builders.strangers import doors_of, runs_a_function
from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask import doors
from cenote.execution.backends.dask.doors import NO_PAGES, RunSecurity, SecuredScheduler

OURS = identities_of("ours")
TO_SHAKE_HANDS = 2.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SpecCluster]:
    monkeypatch.setattr(doors, "_TO_SHAKE_HANDS", TO_SHAKE_HANDS)
    security = RunSecurity(OURS.driver)
    options = {"host": "127.0.0.1", "port": 0, "security": security, "dashboard": False}
    options |= {"local_directory": str(tmp_path)}
    scheduler = {"cls": SecuredScheduler, "options": options}
    with dask.config.set(NO_PAGES), SpecCluster(workers={}, scheduler=scheduler, security=security) as started:
        yield started


def worker_of(cluster: SpecCluster) -> Client:
    """A connection by the port, as workers have it."""
    return Client(cluster.scheduler.address, security=RunSecurity(OURS.workers), set_as_default=False)


def test_nothing_listens_but_the_port_with_certificates(cluster: SpecCluster) -> None:
    (door,) = doors_of(os.getpid())
    assert cluster.scheduler.address == f"tls://{door}"


def test_nothing_is_imported_from_the_folder_that_dask_keeps(cluster: SpecCluster) -> None:
    assert cluster.scheduler.local_directory not in sys.path


def test_strangers_who_say_nothing_are_hung_up_on_and_nobody_waits_for_them(cluster: SpecCluster) -> None:
    (door,) = doors_of(os.getpid())
    with ExitStack() as silent:
        lines = [silent.enter_context(socket.create_connection((door.host, door.port), 30)) for _ in range(50)]
        with worker_of(cluster) as client:
            assert client.run_on_scheduler(os.getpid) == os.getpid()
            assert [line.recv(1) for line in lines] == [b""] * len(lines)
            assert client.run_on_scheduler(os.getpid) == os.getpid()  # connections of ours outlive the limit


def test_strangers_who_stop_in_the_middle_of_a_handshake_are_hung_up_on(cluster: SpecCluster) -> None:
    del cluster
    (door,) = doors_of(os.getpid())
    sent = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="driver")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    with socket.create_connection((door.host, door.port), 30) as line:
        line.sendall(sent.read())
        heard = list(iter(lambda: line.recv(100_000), b""))  # to the end of the connection
    assert heard, "the scheduler's part of the handshake"


def test_strangers_who_open_ever_more_connections_use_up_only_a_part(
    cluster: SpecCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (door,) = doors_of(os.getpid())
    monkeypatch.setattr(doors, "_TO_SHAKE_HANDS", 600.0)
    monkeypatch.setattr(doors, "_UNKNOWN_AT_ONCE", 10)
    with ExitStack() as silent:
        lines = [silent.enter_context(socket.create_connection((door.host, door.port), 30)) for _ in range(30)]
        assert [line.recv(1) for line in lines[:20]] == [b""] * 20
        with worker_of(cluster) as client:
            assert client.run_on_scheduler(os.getpid) == os.getpid()


def test_the_certificate_of_the_workers_is_enough_and_that_of_another_run_is_not(cluster: SpecCluster) -> None:
    assert runs_a_function(cluster.scheduler.address, RunSecurity(OURS.workers))
    assert not runs_a_function(cluster.scheduler.address, RunSecurity(identities_of("ours").driver))
