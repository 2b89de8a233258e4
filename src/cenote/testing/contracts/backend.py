"""Check backends by running a small workflow: the right numbers, failures with their reason, nothing left running."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import uproot
import yaml

import cenote
from cenote.engine.messages import TaskDone, TaskFailed, TaskStarted, WorkerJoined, WorkerRequested
from cenote.execution.backends.interface import Backend
from cenote.execution.runs.journal import read_events
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.muons import write_muons

EVENTS, TASKS = 300, 6
OWN_CODE = '''
from cenote import operation


@operation("custom.fails", reads=["MET_pt"], filter=True)
def fails(events):
    """Cannot be done."""
    raise ValueError("on purpose")
'''

RunWith = Callable[..., cenote.Run]


class BackendContract(PluginContract):
    """`plugin` is the backend; it runs a workflow with two workers of one pool."""

    plugin: ClassVar[type[Backend]]
    name: ClassVar[str] = "contract"
    """What the workflow calls it."""
    execution: ClassVar[Mapping[str, Any]] = {"pools": {"default": {"workers": 2}}}
    """The rest of `execution` in that workflow: a strategy, where workers are to be started."""

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """What stands under `execution.config`."""
        return dict(example["execution"].get("config", {}))

    @pytest.fixture
    def run_with(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunWith]:
        """Run a histogram after these stages."""
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
        restore = registry.forget_added()
        registry.add(PluginKind.BACKEND, self.name, self.plugin)
        write_muons(tmp_path / "a.root", events=EVENTS)
        (tmp_path / "ops.py").write_text(OWN_CODE)
        axis = {"name": "met", "type": "regular", "source": "MET_pt", "bins": {"nbins": 20, "low": 0, "high": 100}}

        def run(*stages: Mapping[str, Any]) -> cenote.Run:
            flow = {
                "plugins": ["ops.py"],
                "data": {"datasets": [{"name": "d", "files": [str(tmp_path / "a.root")]}]},
                "sources": {"events": {"kind": "root_tree", "chunk_size": EVENTS // TASKS}},
                "analysis": {
                    "stages": [*stages, {"id": "H", "op": "hep.hist", "params": {"axes": [axis]}, "render": []}]
                },
                "execution": {"backend": self.name, **self.execution},
            }
            (tmp_path / "flow.yaml").write_text(yaml.safe_dump(flow, sort_keys=False))
            return cenote.load(tmp_path / "flow.yaml").run(tmp_path / "out")

        yield run
        restore()

    def test_every_task_is_done_once_by_a_worker_that_joined_and_the_numbers_are_right(
        self, run_with: RunWith, tmp_path: Path
    ) -> None:
        before = _children()
        run = run_with()
        assert run.status == "succeeded"
        counts, _ = np.histogram(uproot.open(tmp_path / "a.root")["events"]["MET_pt"].array(), 20, (0, 100))
        assert run.product("H").values().tolist() == counts.tolist()
        events = list(read_events(run.folder))
        joined: set[str] = set()
        for event in events:
            if isinstance(event, WorkerJoined):
                joined.add(event.worker)
            elif isinstance(event, TaskStarted):
                assert event.worker in joined
        done = [event.task for event in events if isinstance(event, TaskDone)]
        assert len(done) == len(set(done)) >= TASKS
        assert {event.task for event in events if isinstance(event, TaskStarted)} <= set(done)
        asked_for = any(isinstance(event, WorkerRequested) for event in events)
        assert asked_for != self.plugin.runs_here, "workers are asked for where strategies start them, and only there"
        assert _children() <= before

    def test_what_own_code_raises_is_told_with_its_stage_and_ends_no_worker(self, run_with: RunWith) -> None:
        before = _children()
        run = run_with({"id": "Fails", "op": "custom.fails"})
        assert run.status == "failed"
        assert {failure["stage"] for failure in run.failures} == {"Fails"}
        assert all("on purpose" in failure["message"] for failure in run.failures)
        assert any(isinstance(event, TaskFailed) for event in read_events(run.folder))
        assert _children() <= before


def _children() -> set[int]:
    """Processes that this one started and that are still there."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(int(stat.parent.name))
    return found
