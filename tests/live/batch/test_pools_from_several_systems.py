"""One run with workers from Slurm, from HTCondor and of this machine."""

from __future__ import annotations

import pytest

from .conftest import OWN_POOLS, Workshop, numbers, pools_of


@pytest.mark.usefixtures("slurm", "htcondor")
def test_default_from_slurm_gpu_from_htcondor_and_one_pool_of_this_machine(workshop: Workshop) -> None:
    run = workshop.run(
        "execution.pools.default.strategy=slurm",
        "execution.pools.gpu.strategy=htcondor",
        "execution.pools.high_memory={strategy: local, resources: {memory: 1GB}}",
    )
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run) == OWN_POOLS
    assert {pool["name"]: pool["strategy"] for pool in run.summary["pools"]} == {
        "default": "slurm",
        "gpu": "htcondor",
        "high_memory": "local",
    }
