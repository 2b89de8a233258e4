"""A service goes on from the log of an earlier version as if that version went on itself.

`logs/version_N` has a log as that version left it, with tasks in every state, before and after it was compacted, and
the state that the version itself read from it.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cenote.engine.scaling import PoolState
from cenote.language.schema.service import OTHERS, Budget, PoolRules, ScalingPeriod, ShareRules, Shares
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.messages import TaskKept
from cenote.service.allocator.queue import QueueEntry
from cenote.service.allocator.reasons import InstanceView, TaskView
from cenote.service.client.definitions import PoolDefinition, TaskState
from cenote.service.server.log import ServiceLog

LOGS = Path(__file__).parent / "logs"
EARLIER = sorted(LOGS.glob("version_*"))


@pytest.fixture(params=EARLIER, ids=lambda folder: folder.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of the log, and what its own version read from it."""
    shutil.copy(request.param / "service.sqlite", tmp_path)
    return tmp_path, json.loads((request.param / "state.json").read_text(encoding="utf-8"))


def test_it_leads_to_the_same_state(earlier: tuple[Path, dict[str, Any]]) -> None:
    folder, then = earlier
    with ServiceLog(folder) as log:
        allocator, archive = Allocator.replay(log.read()), log.ended_tasks()
    assert allocator.tasks() == [msgspec.convert(task["view"], TaskView) for task in then["tasks"]]
    for task in then["tasks"]:
        name = task["view"]["definition"]["id"]
        assert list(allocator.instances(name)) == msgspec.convert(task["instances"], list[InstanceView])
    for view, pool in zip(allocator.pools(), then["pools"], strict=True):
        definition, state = msgspec.convert(pool["definition"], PoolDefinition), PoolState(pool["state"])
        assert {name: getattr(view, name) for name in pool} == {**pool, "definition": definition, "state": state}
    assert {pool: allocator.queue(pool) for pool in then["queue"]} == msgspec.convert(
        then["queue"], dict[str, list[QueueEntry]]
    )
    assert archive == msgspec.convert(then["archive"], list[TaskKept])
    states = {view.state for view in allocator.tasks()} | {record.state for record in archive}
    assert states == set(TaskState)


def test_its_rules_hold(earlier: tuple[Path, dict[str, Any]]) -> None:
    with ServiceLog(earlier[0]) as log:
        assert Allocator.replay(log.read()).rules == ShareRules(
            shares=Shares(users={"ada": 2.0}, groups={"atlas": 3.0}),
            most_slots={"ada": 4, OTHERS: 1},
            budgets={OTHERS: Budget(amount=5.0, per="month"), "ada": Budget(amount=50.0, per="week")},
            most_pools={OTHERS: 2, "bob": 1},
            most_workers={OTHERS: 8},
            highest_priority={OTHERS: 5},
            strategies=("local", "slurm"),
            pools={
                "cpu": PoolRules(scheduling="fair_share", most_slots={OTHERS: 3}),
                "big": PoolRules(
                    preemption=False,
                    budget=Budget(amount=100.0),
                    periods=(ScalingPeriod(days=(0, 1, 2, 3, 4), begins=480, ends=1080, min=1, max=4),),
                ),
                "gpu": PoolRules(),
            },
            timezone="Europe/Zurich",
            keep_output=7 * 24 * 3600,
        )


def test_it_can_be_read_again_and_gone_on_with(earlier: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = earlier
    with ServiceLog(folder) as log:
        first = Allocator.replay(log.read())
        log.compact(first.compacted())
    with ServiceLog(folder) as log:
        assert Allocator.replay(log.read()).compacted() == first.compacted()
