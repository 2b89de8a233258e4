"""The files in `examples/sites` are right, and the same workflow asks each batch system for what its site says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ..conftest import Desk

SITES = Path(__file__).parents[3] / "examples" / "sites"
TAKES_PROFILES = """
    execution:
      pools:
        default: {use: standard_worker}
        high_memory: {resources: {memory: 128GB}, workers: 2}
        gpu: {use: gpu_worker, workers: 1}
"""
FLAVOURS = {
    "espresso": 20 * 60,
    "microcentury": 3600,
    "longlunch": 2 * 3600,
    "workday": 8 * 3600,
    "tomorrow": 24 * 3600,
    "testmatch": 3 * 24 * 3600,
    "nextweek": 7 * 24 * 3600,
}


@pytest.fixture
def flow(desk: Desk) -> Desk:
    """The three-pool example, with its data."""
    made = desk.typed("init", "--template", "three-pools", ".")
    assert made.returncode == 0, made.stderr
    desk.write("profiled.yaml", TAKES_PROFILES)
    return desk


def at(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_SITE", str(SITES / f"{site}.yaml"))


def jobs(desk: Desk, *words: str) -> dict[str, str]:
    """The text of the jobs of each pool."""
    shown = desk.typed("plan", "three_pools.yaml", "--show-jobs", *words)
    assert shown.returncode == 0, shown.stderr
    parts = re.split(r"^# pool '(\w+)': .*$", shown.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("file", sorted(SITES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_file_of_a_site_is_right(desk: Desk, file: Path) -> None:
    checked = desk.typed("site", "check", str(file))
    assert checked.returncode == 0, checked.stderr


def test_on_the_slurm_cluster_jobs_have_its_partitions_account_and_network(
    flow: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("slurm-cluster", monkeypatch)
    texts = jobs(flow)
    assert sorted(texts) == ["default", "gpu", "high_memory"]
    for text in texts.values():
        for directive in ("--account=hep", "--partition=short", "--qos=normal", "--time=04:00:00"):
            assert f"#SBATCH {directive}\n" in text
        assert "--interface ib0 --ports 30000-30999 --scratch '/scratch/$USER/cenote'" in text
        assert "--walltime 14400" in text
    assert "#SBATCH --array=1-10" in texts["default"]


def test_its_pool_profiles_mean_what_the_site_means(flow: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    at("slurm-cluster", monkeypatch)
    texts = jobs(flow, "--profile", "profiled.yaml")
    for directive in ("--partition=gpu", "--qos=gpu", "--gres=gpu:a100:1", "--time=02:00:00", "--cpus-per-task=8"):
        assert f"#SBATCH {directive}\n" in texts["gpu"]
    assert "#SBATCH --array=1-10\n" in texts["default"]  # `workers: 10` of the workflow wins over the site's 20


def test_on_htcondor_with_flavours_output_is_transferred_and_not_streamed(
    flow: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("htcondor-flavours", monkeypatch)
    for text in jobs(flow).values():
        for line in (
            '+JobFlavour = "longlunch"',
            "accounting_group = group_u_HEP.users",
            "should_transfer_files = YES",
            "stream_output = false",
            "stream_error = false",
        ):
            assert f"{line}\n" in text
        assert "--walltime 7200" in text  # the worker knows how long the flavour lasts …
        assert "MaxRuntime" not in text  # … and the flavour is all that HTCondor is told
        assert re.search(r"--scratch '*\$\(DOLLAR\)_CONDOR_SCRATCH_DIR'* ", text)  # which the worker fills in


@pytest.mark.parametrize(("flavour", "seconds"), FLAVOURS.items())
def test_every_flavour_is_a_pool_profile_that_knows_its_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, flavour: str, seconds: int
) -> None:
    at("htcondor-flavours", monkeypatch)
    told = json.loads(desk.typed("site", "show", "--json").stdout)
    profile = next(profile for profile in told["pool_profiles"] if profile["name"] == flavour)
    assert (profile["walltime"], profile["settings"]["job_flavour"]) == (seconds, flavour)


@pytest.mark.parametrize("site", ["slurm-cluster", "htcondor-flavours"])
def test_the_plan_says_what_came_from_the_site(flow: Desk, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    at(site, monkeypatch)
    monkeypatch.setenv("COLUMNS", "250")
    shown = flow.cenote("plan", "three_pools.yaml", "--profile", "profiled.yaml").stdout
    assert f"site      {site} gives backend, strategy, " in shown
    assert f"site ({site}, {site}.yaml:" in shown


@pytest.mark.parametrize("words", [("--strategy", "local"), ("--backend", "local")])
def test_on_this_machine_nothing_of_the_batch_system_is_left_and_nobody_is_warned(
    flow: Desk, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    without = flow.cenote("plan", "three_pools.yaml", *words)
    at("slurm-cluster", monkeypatch)
    with_site = flow.cenote("plan", "three_pools.yaml", *words)
    assert with_site.returncode == 0, with_site.stderr
    assert with_site.stderr == without.stderr
    assert " slurm " not in with_site.stdout


def test_a_workflow_without_pools_gets_those_of_the_site(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.muons("a.root", events=10)
    desk.write(
        "flow.yaml",
        """
        data: {datasets: [{name: d, files: "*.root"}]}
        analysis: {stages: [{id: MuonPt, op: hep.hist, render: []}]}
        """,
    )
    at("slurm-cluster", monkeypatch)
    (pool,) = json.loads(desk.typed("plan", "flow.yaml", "--json").stdout)["pools"]
    assert (pool["name"], pool["strategy"], pool["elastic"]["max"]) == ("default", "slurm", 50)
    assert pool["origins"]["elastic.max"].startswith("site (slurm-cluster) (")
