"""The arithmetic of amounts."""

from __future__ import annotations

from cenote.language.execution import Amounts
from cenote.planning.placement.pools import lacking, share, slots_for

GB = 10**9


def test_thirds_and_tenths_of_a_cpu_still_fit() -> None:
    assert lacking(share(Amounts(cpus=0.3), 3), Amounts(cpus=0.1)) == []


def test_every_kind_that_is_short_is_named() -> None:
    worker = Amounts(cpus=1, memory=GB, gpus=0, disk=GB)
    assert lacking(share(worker, 1), Amounts(cpus=2, memory=2 * GB, gpus=1, disk=2 * GB)) == [
        "cpus",
        "memory",
        "gpus",
        "disk",
    ]


def test_a_worker_has_at_least_one_slot() -> None:
    assert slots_for(Amounts(cpus=0.5), [Amounts()]) == 1
    assert slots_for(Amounts(cpus=8), []) == 8
