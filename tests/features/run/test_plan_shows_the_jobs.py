"""`cenote plan --show-jobs` prints what would be submitted for each pool, and submits nothing."""

from __future__ import annotations

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - id: H
          op: hep.hist
          params: {axes: [{name: met, type: regular, source: MET_pt, bins: {nbins: 4, low: 0, high: 9}}]}
    execution:
      strategy: slurm
      pools:
        default: {workers: 20, resources: {cpus: 2, memory: 4GB}, config: {walltime: 04:00:00, partition: short}}
        gpu: {strategy: htcondor, elastic: {min: 0, max: 9}, resources: {gpus: 1}, config: {walltime: 2h}}
        here: {strategy: local, workers: 1}
"""


def test_every_pool_is_shown_with_the_text_of_its_jobs(desk: Desk) -> None:
    desk.muons("a.root", events=10)
    desk.write("flow.yaml", FLOW)
    shown = desk.typed("plan", "flow.yaml", "--show-jobs")
    assert shown.returncode == 0, shown.stderr
    for words in (
        "# pool 'default': 20 workers from slurm",
        "#SBATCH --array=1-20",
        "#SBATCH --time=04:00:00",
        "#SBATCH --partition=short",
        "# pool 'gpu': 1 worker from htcondor",
        "request_gpus = 1",
        "+MaxRuntime = 7200",
        "# pool 'here': 1 worker from local",
        "--scheduler tls://ADDRESS:PORT",
    ):
        assert words in shown.stdout
    assert not (desk.folder / "out").exists()


def test_the_local_backend_submits_nothing_and_says_so(desk: Desk) -> None:
    desk.muons("a.root", events=10)
    desk.write("flow.yaml", FLOW)
    shown = desk.typed("plan", "flow.yaml", "--show-jobs", "--backend", "local")
    assert "submits no jobs" in shown.stdout


def test_one_question_at_a_time(desk: Desk) -> None:
    desk.write("flow.yaml", FLOW)
    assert desk.typed("plan", "flow.yaml", "--show-jobs", "--json").returncode == 2
