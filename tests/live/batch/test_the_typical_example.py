"""The typical example on each batch system: ten workers, two with much memory, one with a GPU, each for its stage."""

from __future__ import annotations

import textwrap

import pytest

from cenote.engine.messages import WorkerJoined

from .conftest import OWN_POOLS, BatchSystem, Workshop, numbers, pools_of

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - id: BuildIndex
          op: custom.index
          execution:
            require: high_memory
        - id: RunInference
          op: custom.inference
          execution:
            require: gpu
        - id: MuonPt
          op: hep.hist
          render: []
          params:
            weight_expr: score
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 40, low: 0, high: 200}}]
    execution:
      strategy: STRATEGY
      config: {host: 127.0.0.1}
      pools:
        default:
          workers: 10
          config:
            walltime: 04:00:00
        high_memory:
          workers: 2
          resources:
            memory: 128GB
          config:
            walltime: 04:00:00
        gpu:
          workers: 1
          resources:
            gpus: 1
          config:
            walltime: 04:00:00
"""


@pytest.fixture
def example(workshop: Workshop, system: BatchSystem) -> Workshop:
    (workshop.folder / "flow.yaml").write_text(textwrap.dedent(FLOW).replace("STRATEGY", system.strategy))
    return workshop


def test_stages_run_on_their_pools_with_the_local_numbers_and_every_worker_leaves_its_logs(
    example: Workshop, system: BatchSystem
) -> None:
    run = example.run()
    assert numbers(run) == example.local_numbers()
    assert pools_of(run) == OWN_POOLS
    system.wait_until_empty()
    workers = {event.worker for event in example.heard(WorkerJoined)}
    assert {worker.rpartition("-")[0] for worker in workers} == {"default", "high_memory", "gpu"}
    for folder in ("logs", "out", "err"):
        assert workers <= {file.name for file in (run.folder / "debug" / "distributed" / folder).iterdir()}
    for worker in workers:
        assert f"{worker} begins" in (run.folder / "debug" / "distributed" / "logs" / worker).read_text()
