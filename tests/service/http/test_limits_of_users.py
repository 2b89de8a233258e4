"""What users with a token may ask for, by the file of the service; its owner and admins are not limited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.service.client.connection import Connection

from .conftest import OpenService, serving

_FILE = """
pool_profiles:
  roomy: {strategy: local, slots: 8}
service:
  most_pools: {others: 2}
  most_workers: {others: 3, greta: 100}
  highest_priority: {others: 10}
  strategies: []
"""


@pytest.fixture(scope="module")
def ruled(place: Path) -> Iterator[OpenService]:
    file = place / "pools.yaml"
    file.write_text(_FILE)
    command = ("-m", "cenote", "serve", str(file), "--home", str(place / "home"), "--listen", "127.0.0.1:0")
    with serving(place, command) as found:
        yield found


def refused(connection: Connection, profile: str, workers: int) -> str:
    with pytest.raises(CenoteError) as problem:
        connection.create_pool("hers", profile, workers).submit()
    assert problem.value.problems[0].kind.name == "not-allowed"
    return problem.value.problems[0].message


def test_users_have_as_many_pools_and_workers_as_the_rules_say(ruled: OpenService) -> None:
    with ruled.person("alice") as alice, ruled.person("greta") as greta:
        assert refused(alice, "roomy", 4) == "user 'alice' would have 4 workers, and may have 3"
        first = alice.create_pool("hers", "roomy", 0).submit()
        second = alice.create_pool("hers", "roomy", 0).submit()
        assert refused(alice, "roomy", 0) == "user 'alice' would have 3 pools, and may have 2"
        second.delete()
        assert refused(alice, "roomy", 4) == "user 'alice' would have 4 workers, and may have 3"
        first.delete()
        greta.create_pool("roomy for greta", "roomy", 0).submit().delete()


def test_strategies_without_a_profile_are_for_those_whom_the_rules_name(ruled: OpenService) -> None:
    with ruled.person("alice") as alice:
        for strategy in ("local", "slurm", "service"):
            words = refused(alice, strategy, 1)
            assert words == f"pools of strategy '{strategy}' can be made by admins only, or from a pool profile"


def test_priorities_end_where_the_rules_say_on_all_ways(ruled: OpenService) -> None:
    with ruled.owner() as owner, ruled.person("alice") as alice:
        shared = owner.create_pool("shared", "local", 0).submit()
        task = alice.create_task("hers", shared.id, 1)
        task.command, task.priority = "true", 11
        with pytest.raises(CenoteError, match="may give priorities up to 10, not 11"):
            task.submit()
        task.priority = 10
        task.submit()
        with pytest.raises(CenoteError, match="may give priorities up to 10, not 1000000"):
            task.change("priority", priority=1_000_000)
        own = owner.create_task("of the owner", shared.id, 1)
        own.command, own.priority = "true", 1000
        own.submit()
        with pytest.raises(CenoteError, match="may give priorities up to 10, not 1000"):
            task.change("ahead", of=own.uuid)
        shared.delete()


def test_admins_and_the_owner_are_not_limited(ruled: OpenService) -> None:
    with ruled.owner() as owner, ruled.person("ada", admin=True) as admin:
        for one in (owner, admin):
            pools = [one.create_pool("many", "local", 0).submit() for _ in range(3)]
            for pool in pools:
                pool.delete()
