"""A worker whose software does not fit the driver's is turned away, and the user reads both versions."""

from __future__ import annotations

import importlib.metadata

import pytest

import cenote
from cenote.common.errors import CenoteError
from cenote.engine.messages import AnyEvent, TaskStarted, Warned, WorkerLost

from ..conftest import Desk

PLUGINS = """
from pathlib import Path
from typing import ClassVar

from cenote.execution.environments.current import CurrentEnvironment


class Other(CurrentEnvironment):
    '''This Python, which says that it has other versions of packages.'''

    cenote_plugin: ClassVar = ("environment", "other")
    is_current: ClassVar = False

    packages: dict[str, str]

    def complete(self, launch):
        folder = Path(__file__).parent / "-".join(self.packages)
        for name, version in self.packages.items():
            (folder / f"{name}-{version}.dist-info").mkdir(parents=True, exist_ok=True)
        return super().complete(launch).with_variables(PYTHONPATH=str(folder))
"""
FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages: [{id: MET, op: hep.hist, params: {axes: [{name: x, source: MET_pt, bins: {nbins: 9, low: 0, high: 90}}]}}]
execution:
  environment: {type: other, packages: PACKAGES}
  pools: {default: {workers: 2}}
"""


def run(desk: Desk, packages: str, backend: str) -> tuple[cenote.Run, list[AnyEvent]]:
    desk.muons("a.root", events=10)
    desk.write("ops.py", PLUGINS)
    flow = desk.write("flow.yaml", FLOW.replace("PACKAGES", packages))
    heard: list[AnyEvent] = []
    found = cenote.load(flow, backend=backend).run(desk.folder / "out", hear=lambda _, event: heard.append(event))
    return found, heard


def test_workers_that_could_not_read_the_drivers_data_are_turned_away_and_not_asked_for_again(desk: Desk) -> None:
    done, heard = run(desk, "{numpy: 1.26.4, uproot: 4.0.0}", "dask")

    assert done.status == "failed"
    here = importlib.metadata.version("numpy")
    words = f"its software does not fit the driver's: it has numpy 1.26.4 (the driver has {here})"
    lost = [event for event in heard if isinstance(event, WorkerLost)]
    assert {event.cause for event in lost if event.cause != "retired"} == {"unfit"}
    assert len(lost) <= 4, "workers are not asked for again and again"
    assert lost[0].reason.startswith(words)
    assert done.failures[0]["message"].startswith(f"pool 'default' failed: its workers were turned away: {words}")
    assert not any(isinstance(event, TaskStarted) for event in heard)
    assert words in desk.typed("why", "out").stdout


def test_the_local_backend_says_the_same_at_once(desk: Desk) -> None:
    with pytest.raises(CenoteError) as told:
        run(desk, "{awkward: 1.10.0}", "local")

    (problem,) = told.value.problems
    here = importlib.metadata.version("awkward")
    assert problem.message == "workers cannot start: the software of the worker does not fit the driver's"
    assert f"it has awkward 1.10.0 (the driver has {here})" in problem.details[-1]


@pytest.mark.parametrize(("backend", "whose"), [("dask", "workers of pool 'default'"), ("local", "worker processes")])
def test_other_differences_are_warned_of_once(desk: Desk, backend: str, whose: str) -> None:
    done, heard = run(desk, "{uproot: 4.0.0}", backend)

    assert done.status == "succeeded", done.failures
    here = importlib.metadata.version("uproot")
    assert [event.message for event in heard if isinstance(event, Warned)] == [
        f"{whose} have other software than the driver: uproot 4.0.0 (the driver has {here}); numbers may differ"
    ]


def test_a_probe_compares_them_in_the_same_way(desk: Desk) -> None:
    desk.muons("a.root", events=10)
    desk.write("ops.py", PLUGINS)
    desk.write("flow.yaml", FLOW.replace("PACKAGES", "{numpy: 1.26.4, uproot: 4.0.0}"))

    told = desk.typed("probe", "flow.yaml", "--backend", "dask")

    assert told.returncode != 0
    assert f"versions that do not fit: numpy 1.26.4 (here {importlib.metadata.version('numpy')})" in told.stdout
    assert f"other versions there: uproot 4.0.0 (here {importlib.metadata.version('uproot')})" in told.stdout
