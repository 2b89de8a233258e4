"""Workers whose jobs ended while no service was there."""

from __future__ import annotations

import time
from pathlib import Path

from cenote.common.certificates.authority import identities_of
from cenote.engine.messages import WorkerLost
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.home import ServiceHome
from cenote.service.server.agent_pools import AgentPools
from cenote.service.server.hub import Hub


def test_a_worker_without_a_job_that_does_not_come_back_is_lost_once_it_is_given_up(tmp_path: Path) -> None:
    home = ServiceHome(tmp_path / "home")
    home.prepare()
    hub = Hub(identities_of("a service").driver)
    pools = AgentPools(home, hub, service="service-1", host=None, clock=time.time, orphan=600.0)
    try:
        pools.add_again(PoolDefinition(name="p", workers=1, strategy="local"), ("p-1",))
        pools.end_workers("p", ("p-1",), "it did not answer for 1m")
        lost = [event for event in pools.events() if isinstance(event, WorkerLost)]
        assert [(event.worker, event.pool, event.reason) for event in lost] == [
            ("p-1", "p", "it did not answer for 1m")
        ]
    finally:
        pools.close()
