"""The driver listens where its settings say, workers are told how to reach it, and listen where they may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from builders.plans import a_pool
from cenote.common.errors import CenoteError
from cenote.execution.backends.dask.backend import Dask
from cenote.execution.backends.dask.launch import WorkerPlace
from cenote.execution.backends.dask.network import Network, is_everywhere
from cenote.execution.backends.interface import MeetingPoint
from cenote.execution.launch import LaunchingRun
from cenote.execution.worker.process.reach import facing
from cenote.planning.placement.pools import PlacedPool

HERE = (a_pool("default"),)
ELSEWHERE = (replace(a_pool("default"), strategy="slurm", starts_here=False),)


@contextmanager
def two_ports_the_first_taken() -> Iterator[range]:
    """A range of two neighbours of which somebody holds the first and nobody the second."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            first.listen()
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            second.close()
            yield range(port, port + 2)
            return


def command_of(backend: Dask, pools: tuple[PlacedPool, ...]) -> str:
    launch = backend.launch(LaunchingRun("RUN", Path("/out")), pools, pools[0], lifetime=None)
    return " ".join(launch.here("default-1")[0])


def test_the_first_free_port_of_a_range_is_taken() -> None:
    with two_ports_the_first_taken() as ports:
        network = Network(WorkerPlace(), "127.0.0.1", ports=ports)
        assert network.listen(lambda host, port: (host, port)) == ("127.0.0.1", ports[1])


def test_a_port_that_is_taken_at_the_last_moment_is_passed_over() -> None:
    with two_ports_the_first_taken() as ports, socket.socket() as rival:
        network = Network(WorkerPlace(), "127.0.0.1", ports=ports)

        def too_late(host: str | None, port: int) -> None:
            rival.bind((host or "", port))
            rival.listen()
            raise RuntimeError("Cluster failed to start: Address already in use")

        with pytest.raises(CenoteError, match=f"no port of {ports[0]}-{ports[1]} is free on 127.0.0.1"):
            network.listen(too_late)


def test_when_no_port_is_free_the_range_is_named_and_no_run_begins() -> None:
    with two_ports_the_first_taken() as ports, pytest.raises(CenoteError) as refused:
        Network(WorkerPlace(), "127.0.0.1", ports=ports[:1]).listen(lambda host, port: (host, port))
    (problem,) = refused.value.problems
    assert problem.kind.name == "network"
    assert problem.message.startswith(f"no port of {ports[0]} is free")


@pytest.mark.parametrize("host", ["192.0.2.77", "no-such-host.invalid"])
def test_an_address_that_is_not_of_this_machine_is_a_mistake_and_not_a_fault_of_ours(host: str) -> None:
    network = Network(WorkerPlace(), host)
    for attempt in (lambda: network.listen(lambda host, port: (host, port)), network.meeting_point):
        with pytest.raises(CenoteError, match=f"the driver cannot listen on {host}: ") as refused:
            attempt()
        (problem,) = refused.value.problems
        assert problem.kind.name == "network"
        assert "must be an address of this machine" in (problem.hint or "")


def test_what_goes_wrong_otherwise_is_not_taken_for_a_port_in_use() -> None:
    def broken(host: str | None, port: int) -> None:
        raise RuntimeError(f"{host} {port}: something else")

    with pytest.raises(RuntimeError, match="something else"):
        Network(WorkerPlace(), "127.0.0.1").listen(broken)


def test_an_interface_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(CenoteError) as refused:
        Dask(interface="lo1").meeting_point(ELSEWHERE)
    (problem,) = refused.value.problems
    assert problem.message == "the network interface 'lo1' is not there on this machine"
    assert any("lo" in line for line in problem.details)
    assert problem.hint == "did you mean 'lo'?"


def test_the_driver_listens_on_the_address_of_the_interface() -> None:
    backend = Dask.model_validate({"interface": "lo", "port": "20000-20100"})
    assert backend.meeting_point(ELSEWHERE) == MeetingPoint("127.0.0.1", range(20000, 20101))


def test_a_host_wins_over_an_interface() -> None:
    assert Dask(interface="ib0", host="127.0.0.1").meeting_point(ELSEWHERE).host == "127.0.0.1"


def test_workers_on_other_machines_get_the_network_of_the_site() -> None:
    backend = Dask.model_validate(
        {"worker_interface": "ib0", "worker_ports": "30000-30999", "scratch": "/scratch/$USER", "port": 8786}
    )
    told = command_of(backend, ELSEWHERE)
    assert "--scheduler tls://ADDRESS:8786" in told
    assert "--interface ib0 --ports 30000-30999 --scratch /scratch/$USER" in told


def test_workers_of_this_machine_alone_need_no_network_of_the_site() -> None:
    backend = Dask.model_validate({"interface": "ib0", "worker_interface": "ib0", "contact": "driver.example:1"})
    told = command_of(backend, HERE)
    assert "--scheduler tls://127.0.0.1:PORT" in told
    assert "--host 127.0.0.1" in told
    assert "ib0" not in told
    assert "--scheduler tls://[::1]:PORT" in command_of(Dask(host="::1"), HERE)


@pytest.mark.parametrize(
    ("contact", "told"),
    [
        ("driver.example:8786", "tls://driver.example:8786"),
        ("driver.example", "tls://driver.example:20001"),
        (None, "tls://10.0.0.5:20001"),
    ],
)
def test_workers_are_told_the_contact_instead_of_the_address_listened_on(contact: str | None, told: str) -> None:
    assert Network(WorkerPlace(), contact=contact).told("tls://10.0.0.5:20001") == told


def test_the_driver_listens_on_one_address_unless_the_user_writes_otherwise() -> None:
    assert not is_everywhere(Dask().meeting_point(ELSEWHERE).host)
    assert Dask().meeting_point(HERE).host == "127.0.0.1"
    assert Network(WorkerPlace(), "127.0.0.1").warnings() == []
    (warning,) = Network(WorkerPlace(), "0.0.0.0").warnings()
    assert "0.0.0.0" in warning


def test_workers_beside_a_driver_that_listens_everywhere_do_not() -> None:
    assert "--host" not in command_of(Dask(host="0.0.0.0"), HERE)


def test_a_worker_listens_on_the_address_that_faces_the_driver() -> None:
    assert facing("tls://127.0.0.1:8786") == "127.0.0.1"
    outward = Dask().meeting_point(ELSEWHERE).host
    assert facing(f"tls://{outward}:8786") == outward
    with pytest.raises(OSError, match=r".+"):
        facing("tls://no-such-host.invalid:8786")


def test_the_key_of_workers_is_named_by_a_file_and_is_no_word_of_their_command() -> None:
    launch = Dask().launch(LaunchingRun("RUN", Path("/out")), HERE, HERE[0], lifetime=None)
    (file,) = launch.files
    assert file.source == Path("/out/identity/RUN.pem")
    assert f"--identity {file.source}" in command_of(Dask(), HERE)
