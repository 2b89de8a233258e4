"""Measure what a task costs that does nothing: Cenote on Dask and on this machine against Dask alone.

    python benchmarks/overhead/run.py [--tasks 10000] [--workers 2] [--rounds 3] [--fasthep PROGRAM] [--json FILE]

The promise is that a task of Cenote on Dask costs at most 1.5 × a task of Dask alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import uproot

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Contender, Machine, Turns, Used, arguments, finish, flow_command, middle, ratio, take_turns

HERE = Path(__file__).parent
GOAL = 1.5
"""The cost of a task on Dask, as a multiple of what Dask alone needs."""
EVENTS = 10
"""Of a partition."""
BASKET = 1000
TINY_FILES = 200
BARE = "bare Dask"
OURS = {"cenote on Dask": "dask", "cenote, local": "local"}
"""Contender → backend."""


def main() -> None:
    """Run the contenders one after the other, several times, and print how they compare."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fasthep", metavar="PROGRAM", help="the real FAST-HEP, for 200 tiny files as well")
    asked = parser.parse_args()
    machine = Machine.now()
    with tempfile.TemporaryDirectory(prefix="cenote-overhead-") as name:
        folder = Path(name)
        contenders = []
        for tasks, what in ((1, ", one task"), (asked.tasks, "")):
            file = _write_file(folder / f"{tasks}.root", tasks)
            contenders.append(_bare(tasks, asked.workers, what))
            contenders += [_ours(who, file, asked.workers, asked.cenote, what) for who in OURS]
        turns = take_turns(contenders, rounds=asked.rounds)
        if asked.fasthep:
            turns |= _tiny_files(folder / "tiny", asked.fasthep, asked.cenote, asked.rounds)
    finish(machine, _shown(turns), turns, json_file=asked.json)


def _bare(tasks: int, workers: int, what: str) -> Contender:
    def per_task(folder: Path, _: Used) -> dict[str, float]:
        return {"tasks": tasks, "per task": json.loads((folder / "bare.json").read_text())["tasks"] / tasks}

    words = [sys.executable, str(HERE / "bare.py"), str(tasks), str(workers)]
    return Contender(BARE + what, lambda folder: [*words, str(folder / "bare.json")], of_run=per_task)


def _ours(name: str, file: Path, workers: int, cenote: str, what: str) -> Contender:
    def command(folder: Path) -> list[str]:
        return flow_command(_workflow(file, OURS[name], workers), folder, cenote=cenote)

    return Contender(name + what, command, of_run=_executing)


def _executing(folder: Path, _: Used) -> dict[str, float]:
    """From the start of the first task to the end of the last, merges included."""
    events = [json.loads(line) for line in (folder / "out" / "journal.jsonl").read_text().splitlines()]
    starts = [event["at"] for event in events if event["type"] == "TaskStarted"]
    ends = [event["at"] for event in events if event["type"] == "TaskDone"]
    return {"tasks": len(ends), "per task": (max(ends) - min(starts)) / len(ends)}


def _workflow(file: Path, backend: str, workers: int) -> dict[str, Any]:
    """As many partitions as the file has times `EVENTS` events."""
    return {
        "plugins": [str(HERE / "ops.py")],
        "data": {"datasets": [{"name": "d", "files": [str(file)]}]},
        "sources": {"events": {"kind": "root_tree", "chunk_size": EVENTS}},
        "analysis": {"stages": [{"id": "Count", "op": "custom.count"}]},
        "execution": {"backend": backend, "pools": {"default": {"workers": workers}}},
    }


def _write_file(path: Path, tasks: int) -> Path:
    """In baskets small enough that reading a few events is cheap."""
    with uproot.recreate(path, compression=uproot.ZSTD(3)) as file:
        tree = file.mktree("Events", {"x": np.dtype("f4")})
        for start in range(0, tasks * EVENTS, BASKET):
            tree.extend({"x": np.arange(start, min(start + BASKET, tasks * EVENTS), dtype="f4")})
    return path


def _tiny_files(folder: Path, fasthep: str, cenote: str, rounds: int) -> dict[str, Turns]:
    """One histogram of many files that hold next to nothing: what is left is the cost of a file."""
    folder.mkdir()
    files = [_write_file(folder / f"{number}.root", 1) for number in range(TINY_FILES)]
    axis = {"name": "x", "type": "regular", "source": "x", "bins": {"nbins": 10, "low": 0, "high": 100}}
    flow = {
        "version": "1.0",
        "use": {"profiles": ["hep"]},
        "data": {"datasets": [{"name": "d", "files": [str(file) for file in files]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "Events"}},
        "analysis": {"stages": [{"id": "H", "op": "hep.hist", "params": {"axes": [axis]}, "render": []}]},
    }

    def theirs(folder: Path) -> list[str]:
        return [*flow_command(flow, folder, cenote=fasthep)[:3], "--outdir", str(folder / "out")]

    ours, other = "cenote, tiny files", "FAST-HEP, tiny files"
    contenders = [Contender(ours, lambda folder: flow_command(flow, folder, cenote=cenote)), Contender(other, theirs)]
    turns = take_turns(contenders, rounds=rounds)
    if turns[ours].wall and turns[other].wall:
        seconds = [middle(turns[name], "wall") for name in (ours, other)]
        times = ratio(turns[ours], turns[other], "wall")
        print(f"{TINY_FILES} tiny files: {seconds[0]:.1f} s, FAST-HEP {seconds[1]:.1f} s: {times:.2f} ×")
    return turns


def _shown(turns: Mapping[str, Turns]) -> dict[str, float | str]:
    """Print the ratios; the figures."""
    head = ("tasks", "per task", "× bare", "start-up", "× bare", "whole", "× bare", "CPU")
    print(f"{'':16}" + "".join(f"{word:>11}" for word in head))
    floor, floor_start = turns[BARE], turns[f"{BARE}, one task"]
    figures: dict[str, float | str] = {}
    for name in (BARE, *OURS):
        whole, start = turns[name], turns[f"{name}, one task"]
        if whole.problem or start.problem:
            print(f"{name:16}  not measured: {whole.problem or start.problem}")
            continue
        figures[f"{name}: per task"] = ratio(whole, floor, "per task")
        words = [
            f"{middle(whole, 'tasks'):,.0f}",
            f"{1000 * middle(whole, 'per task'):.2f} ms",
            f"{figures[f'{name}: per task']:.2f}",
            f"{middle(start, 'wall'):.2f} s",
            f"{ratio(start, floor_start, 'wall'):.2f}",
            f"{middle(whole, 'wall'):.1f} s",
            f"{ratio(whole, floor, 'wall'):.2f}",
            f"{middle(whole):.1f} s",
        ]
        print(f"{name:16}" + "".join(f"{word:>11}" for word in words))
    print(f"the goal is {GOAL} × bare per task on Dask")
    return figures


if __name__ == "__main__":
    main()
