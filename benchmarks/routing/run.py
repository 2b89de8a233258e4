"""Measure how well three stages keep three pools busy: the make-span against the least that is possible.

    python benchmarks/routing/run.py [--partitions 64] [--scale 1.0] [--megabytes 0 10 50] [--rounds 1] [--json FILE]

No schedule is shorter than the work of a pool divided by its slots.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Contender, Machine, Used, arguments, finish, flow_command, middle, take_turns

HERE = Path(__file__).parent
GOALS = {0: 1.12, 10: 1.15, 50: 1.2}
"""Megabytes between the stages → make-span as a multiple of the bound."""
EVENTS = 10
"""Of a partition."""


@dataclass(frozen=True)
class Stage:
    """One stage: its pool, how many workers that has, and how long a task sleeps."""

    id: str
    op: str
    pool: str
    workers: int
    seconds: float


STAGES = (
    Stage("First", "custom.first", "default", 4, 0.8),
    Stage("Second", "custom.second", "high_memory", 2, 0.4),
    Stage("Third", "custom.third", "gpu", 1, 0.2),
)
"""All pools have the same work per slot: the hardest case, for none may ever wait."""


def main() -> None:
    """Run for each size in turns and print the ratios."""
    parser = arguments(__doc__, rounds=1)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--scale", type=float, default=1.0, help="of all durations")
    parser.add_argument("--megabytes", type=float, nargs="+", default=list(GOALS), help="from stage to stage")
    asked = parser.parse_args()
    bound = max(asked.partitions * asked.scale * stage.seconds / stage.workers for stage in STAGES)
    fill = asked.scale * sum(stage.seconds for stage in STAGES[:-1])
    print(
        f"{asked.partitions} partitions, bound {bound:.1f} s; with pipes that fill first {(bound + fill) / bound:.2f} ×"
    )
    machine = Machine.now()
    with tempfile.TemporaryDirectory(prefix="cenote-routing-") as name:
        data = _write_file(Path(name) / "data.root", asked.partitions)
        contenders = [_contender(data, megabytes, asked.scale, asked.cenote) for megabytes in asked.megabytes]
        turns = take_turns(contenders, rounds=asked.rounds)
    print(f"{'between stages':>15} {'executing':>16} {'all workers there':>20} {'whole run':>16} {'CPU':>9}  goal")
    figures: dict[str, float | str] = {"bound": f"{(bound + fill) / bound:.2f}"}
    for megabytes, one in zip(asked.megabytes, turns.values(), strict=True):
        if not one.cpu:
            print(f"{megabytes:12g} MB not measured: {one.problem}")
            continue
        seconds = [middle(one, what) for what in ("executing", "staffed", "wall")]
        figures[f"{megabytes:g} MB"] = seconds[0] / bound
        cells = [f"{took:6.1f} s {took / bound:5.2f} ×" for took in seconds]
        goal = GOALS.get(megabytes, "")
        print(f"{megabytes:12g} MB {cells[0]:>16} {cells[1]:>20} {cells[2]:>16} {middle(one):7.1f} s  {goal}")
    finish(machine, figures, turns, json_file=asked.json)


def _contender(data: Path, megabytes: float, scale: float, cenote: str) -> Contender:
    def command(folder: Path) -> list[str]:
        return flow_command(_workflow(data, megabytes, scale), folder, cenote=cenote)

    def found(folder: Path) -> Any:
        summary = json.loads((folder / "out" / "summary.json").read_text())
        return summary["status"], summary["events"]

    return Contender(f"cenote, {megabytes:g} MB", command, found, like="any size", of_run=_of_run)


def _of_run(folder: Path, _: Used) -> dict[str, float]:
    """From the start of the first task, and from when all workers were there, to the end of the last task."""
    events = [json.loads(line) for line in (folder / "out" / "journal.jsonl").read_text().splitlines()]
    started, ended = min(_times(events, "TaskStarted")), max(_times(events, "TaskDone"))
    return {"executing": ended - started, "staffed": ended - max(started, *_times(events, "WorkerJoined"))}


def _times(events: Sequence[dict[str, Any]], kind: str) -> list[float]:
    return [event["at"] for event in events if event["type"] == kind]


def _workflow(data: Path, megabytes: float, scale: float) -> dict[str, Any]:
    stages: list[dict[str, Any]] = []
    for stage in STAGES:
        params = {"seconds": scale * stage.seconds}
        params |= {"megabytes": megabytes} if stage is not STAGES[-1] else {}
        where = {"execution": {"require": stage.pool}} if stage.pool != "default" else {}
        stages.append({"id": stage.id, "op": stage.op, "params": params, **where})
    return {
        "plugins": [str(HERE / "ops.py")],
        "data": {"datasets": [{"name": "d", "files": [str(data)]}]},
        "sources": {"events": {"kind": "root_tree", "chunk_size": EVENTS}},
        "analysis": {"stages": stages},
        "execution": {"backend": "dask", "pools": {stage.pool: {"workers": stage.workers} for stage in STAGES}},
    }


def _write_file(path: Path, partitions: int) -> Path:
    with uproot.recreate(path) as file:
        file.mktree("Events", {"x": np.dtype("f4")}).extend({"x": np.zeros(partitions * EVENTS, dtype="f4")})
    return path


if __name__ == "__main__":
    main()
