"""`cenote probe` tells what a worker of each pool would find, leaves nothing behind, and later commands remember it."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import cenote
from cenote.cli.main import exit_code_of
from cenote.execution.runs.follow import FollowedRun
from cenote.planning.probes.cache import ProbeHistory, probe_key
from cenote.planning.probes.result import Finding, Probed

from ..conftest import Desk

OPS = """
    import awkward as ak
    from cenote import operation

    @operation("custom.count", reads=["Muon_pt"], adds=["n"])
    def count(events):
        return {"n": ak.num(events["Muon_pt"])}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - {id: Count, op: custom.count, execution: {require: big}}
        - id: H
          op: hep.hist
          params: {axes: [{name: n, type: regular, source: n, bins: {nbins: 4, low: 0, high: 9}}]}
    execution:
      backend: dask
      pools: {default: {workers: 1, resources: {memory: 1GB}}, big: {workers: 1, resources: {memory: 2GB}}}
"""


def set_up(desk: Desk) -> list[str]:
    """A workflow of two pools; the names of the files that there are."""
    desk.muons("a.root", events=10)
    desk.write("ops.py", OPS)
    desk.write("flow.yaml", FLOW)
    return names_in(desk)


def names_in(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.folder.iterdir())


def answers(pool: dict[str, Any]) -> dict[str, str]:
    return {finding["question"]: finding["verdict"] for finding in pool["findings"]}


def test_workers_of_this_machine_are_probed_by_real_processes_and_nothing_is_left(desk: Desk) -> None:
    before = set_up(desk)

    told = desk.typed("probe", "flow.yaml", "--json")

    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    result = json.loads(told.stdout)
    assert (result["workflow"], result["verdict"], result["jobs"]) == ("flow.yaml", "ok", True)
    for pool in result["pools"]:
        questions = "job network python packages worker plugins cpus memory scratch folder data"
        assert answers(pool) == dict.fromkeys(questions.split(), "ok")
        assert {"dask", "distributed", "awkward", "numpy"} <= set(pool["node"]["packages"])
    assert names_in(desk) == before


def test_for_people_there_is_a_table_and_progress_goes_to_stderr(desk: Desk) -> None:
    set_up(desk)

    told = desk.typed("probe", "flow.yaml")

    assert "default (local) works\n" in told.stdout
    assert told.stdout.splitlines()[-1].startswith("2 pools probed in ")
    assert "big: job " in told.stderr


def test_the_backend_local_has_nothing_but_this_machine_to_probe(desk: Desk) -> None:
    before = set_up(desk)

    told = desk.typed("probe", "flow.yaml", "--backend", "local")

    assert told.returncode == 0, told.stderr
    assert "only this machine can be probed" in told.stdout
    assert "network" not in told.stdout
    assert names_in(desk) == before


def test_the_next_plan_says_when_pools_were_probed(desk: Desk) -> None:
    set_up(desk)
    assert "probed" not in desk.typed("plan", "flow.yaml").stdout
    desk.typed("probe", "flow.yaml")

    shown = desk.typed("plan", "flow.yaml")
    told = json.loads(desk.typed("plan", "flow.yaml", "--json").stdout)

    assert "ok, just now on " in shown.stdout
    assert {pool["probe"]["verdict"] for pool in told["pools"]} == {"ok"}
    other = json.loads(desk.typed("plan", "flow.yaml", "--json", "--set", "execution.pools.big.workers=2").stdout)
    assert other["pools"][1]["probe"]["verdict"] == "ok", "the number of workers changes nothing for one of them"
    other = json.loads(
        desk.typed("plan", "flow.yaml", "--json", "--set", "execution.pools.big.resources.memory=3GB").stdout
    )
    assert [pool["probe"]["verdict"] for pool in other["pools"]] == ["ok", None]


def test_a_problem_becomes_a_warning_of_the_plan_and_is_known_to_why(desk: Desk) -> None:
    set_up(desk)
    flow = desk.folder / "flow.yaml"
    plan = cenote.load(flow, backend="local").plan()
    cenote.load(flow, backend="local").run(desk.folder / "out")
    far = Finding("network", "problem", "does not reach the driver at 10.0.0.5:8786: Connection refused")
    gone = Finding("data", "problem", "there is no such file", of_workflow=True)
    probe = Probed(time.time() - 7200, str(flow), "node07", (far, gone))
    ProbeHistory().keep({probe_key(plan, plan.placement.pool("big")): probe})

    (warning,) = [words for words in cenote.load(flow, backend="local").plan().warnings if "its probe" in words]

    assert warning.startswith("pool 'big' failed its probe on ")
    assert warning.endswith(f": network: {far.words}; data: {gone.words}")
    assert FollowedRun(desk.folder / "out").view.probes["big"] == probe, "it is younger than the run"
    desk.write("other.yaml", FLOW)
    (other,) = cenote.load(desk.folder / "other.yaml", backend="local").plan().probes.values()
    assert other.findings == (far,), "what was wrong with the data of one workflow is nothing to another"


def test_a_plugin_that_nodes_cannot_import_is_a_problem(desk: Desk) -> None:
    set_up(desk)
    only_there = """
    import __main__
    if __main__.__spec__.name == "cenote.execution.probe.node":
        import no_such_package
    """
    desk.write("ops.py", OPS + only_there)

    told = desk.cenote("probe", "flow.yaml")

    assert told.returncode == 21
    assert "big (local) cannot work\n" in told.stdout
    assert "No module named 'no_such_package'" in " ".join(told.stdout.split())  # wherever its lines break
    assert told.stdout.endswith("none of them can work\n")


def test_ctrl_c_ends_the_probe_and_its_processes(desk: Desk) -> None:
    before = set_up(desk)
    with desk.started("probe", "flow.yaml") as probing:
        assert probing.stdout is not None
        probing.stdout.readline()
        probing.send_signal(signal.SIGINT)
        rest = probing.stdout.read()
        assert probing.wait(30) == 130
    assert rest.endswith("cenote: interrupted\n")
    assert names_in(desk) == before


def test_a_folder_that_cannot_be_made_is_a_mistake_of_the_user(desk: Desk) -> None:
    set_up(desk)

    told = desk.typed("probe", "flow.yaml", "--out", "a.root/out")

    assert told.returncode == 2
    assert "not writable: Not a directory" in told.stderr


def test_a_time_that_is_none_is_a_mistake_of_the_user(desk: Desk) -> None:
    set_up(desk)
    assert exit_code_of(["probe", str(desk.folder / "flow.yaml"), "--wait", "soon"]) == 2
