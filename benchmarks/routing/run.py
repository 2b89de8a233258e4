"""Measure how well three stages keep three pools busy: the make-span against the least that is possible.

    python benchmarks/routing/run.py [--partitions 64] [--scale 1.0] [--megabytes 0 10 50] [--json FILE]

No schedule is shorter than the work of a pool divided by its slots. The promise is at most 1.15 × that bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

HERE = Path(__file__).parent
GOAL = 1.15
"""Make-span as a multiple of the bound, without data between the stages."""
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


@dataclass(frozen=True)
class Measured:
    """One run, in seconds."""

    megabytes: float
    bound: float
    executing: float
    """From the start of the first task to the end of the last."""
    staffed: float
    """From when all workers were there."""
    whole: float
    """Of the command, from start to end."""


def main() -> None:
    """Run once for each size and print the ratios."""
    asked = _arguments()
    bound = max(asked.partitions * asked.scale * stage.seconds / stage.workers for stage in STAGES)
    fill = asked.scale * sum(stage.seconds for stage in STAGES[:-1])
    print(
        f"{asked.partitions} partitions, bound {bound:.1f} s; with pipes that fill first {(bound + fill) / bound:.2f} ×"
    )
    print(f"{'between stages':>15} {'executing':>16} {'all workers there':>20} {'whole run':>16}")
    found = []
    with tempfile.TemporaryDirectory(prefix="cenote-routing-") as name:
        data = _write_file(Path(name) / "data.root", asked.partitions)
        for number, megabytes in enumerate(asked.megabytes):
            measured = _measure(Path(name) / str(number), data, megabytes, asked.scale, bound)
            found.append(measured)
            times = (measured.executing, measured.staffed, measured.whole)
            cells = [f"{seconds:6.1f} s {seconds / bound:5.2f} ×" for seconds in times]
            print(f"{megabytes:12g} MB {cells[0]:>16} {cells[1]:>20} {cells[2]:>16}", flush=True)
    print(f"the goal is {GOAL} × the bound without data")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(measured) for measured in found], indent=1), encoding="utf-8")


def _measure(folder: Path, data: Path, megabytes: float, scale: float, bound: float) -> Measured:
    folder.mkdir()
    flow, out = folder / "flow.yaml", folder / "out"
    flow.write_text(json.dumps(_workflow(data, megabytes, scale)), encoding="utf-8")
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("cenote")), "run", str(flow), "--out", str(out), "--quiet"]
    subprocess.run(command, check=True, timeout=1800)
    whole = time.perf_counter() - began
    events = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    started, ended = min(_times(events, "TaskStarted")), max(_times(events, "TaskDone"))
    staffed = max(started, *_times(events, "WorkerJoined"))
    return Measured(megabytes, bound, ended - started, ended - staffed, whole)


def _times(events: Sequence[dict[str, Any]], kind: str) -> list[float]:
    return [event["at"] for event in events if event["type"] == kind]


def _workflow(data: Path, megabytes: float, scale: float) -> dict[str, Any]:
    """JSON is YAML."""
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--scale", type=float, default=1.0, help="of all durations")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0, 10, 50], help="from stage to stage")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
