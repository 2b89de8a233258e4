"""Measure what a task costs that does nothing: Cenote on Dask and on this machine against Dask alone.

    python benchmarks/overhead/run.py [--tasks 10000] [--workers 2] [--rounds 3] [--fasthep PROGRAM] [--json FILE]

The promise is that a task of Cenote on Dask costs at most 1.5 × a task of Dask alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uproot

HERE = Path(__file__).parent
GOAL = 1.5
"""The cost of a task on Dask, as a multiple of what Dask alone needs."""
EVENTS = 10
"""Of a partition."""
BASKET = 1000
TINY_FILES = 200
_CENOTE = str(Path(sys.executable).with_name("cenote"))


@dataclass
class Measured:
    """Seconds of each round."""

    per_task: list[float] = field(default_factory=list)
    """From the start of the first task to the end of the last, divided by their number."""
    startup: list[float] = field(default_factory=list)
    """A whole process with one task."""
    whole: list[float] = field(default_factory=list)
    """A whole process with all tasks."""
    tasks: int = 0
    """Merges included."""


def main() -> None:
    """Run the contenders one after the other, several times, and print how they compare."""
    asked = _arguments()
    measured = {name: Measured() for name in ("bare Dask", "cenote on Dask", "cenote, local")}
    with tempfile.TemporaryDirectory(prefix="cenote-overhead-") as name:
        folder = Path(name)
        files = {tasks: _write_file(folder / f"{tasks}.root", tasks) for tasks in (1, asked.tasks)}
        for number in range(asked.rounds):
            _bare(measured["bare Dask"], folder, asked.tasks, asked.workers)
            for backend, contender in (("dask", "cenote on Dask"), ("local", "cenote, local")):
                _cenote(measured[contender], folder / f"{backend}-{number}", backend, files, asked.workers)
        if asked.fasthep:
            _tiny_files(folder / "tiny", asked.fasthep, asked.rounds)
    _print(measured)
    if asked.json:
        asked.json.write_text(json.dumps({name: vars(m) for name, m in measured.items()}, indent=1), encoding="utf-8")


def _bare(measured: Measured, folder: Path, tasks: int, workers: int) -> None:
    result = folder / "bare.json"
    script = [sys.executable, str(HERE / "bare.py")]
    measured.startup.append(_seconds([*script, "1", str(workers), str(result)]))
    measured.whole.append(_seconds([*script, str(tasks), str(workers), str(result)]))
    measured.per_task.append(json.loads(result.read_text())["tasks"] / tasks)
    measured.tasks = tasks


def _cenote(measured: Measured, folder: Path, backend: str, files: Mapping[int, Path], workers: int) -> None:
    for tasks, file in files.items():
        flow, out = folder / f"{tasks}.yaml", folder / f"out-{tasks}"
        folder.mkdir(exist_ok=True)
        flow.write_text(json.dumps(_workflow(file, backend, workers)), encoding="utf-8")
        command = [_CENOTE, "run", str(flow), "--out", str(out), "--quiet"]
        (measured.startup if tasks == 1 else measured.whole).append(_seconds(command))
    first, last, measured.tasks = _executing(out / "journal.jsonl")
    measured.per_task.append((last - first) / measured.tasks)


def _executing(journal: Path) -> tuple[float, float, int]:
    """When the first task started, when the last was done, and how many there were."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    starts = [event["at"] for event in events if event["type"] == "TaskStarted"]
    ends = [event["at"] for event in events if event["type"] == "TaskDone"]
    return min(starts), max(ends), len(ends)


def _workflow(file: Path, backend: str, workers: int) -> dict[str, Any]:
    """As many partitions as the file has times `EVENTS` events (JSON is YAML)."""
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


def _tiny_files(folder: Path, fasthep: str, rounds: int) -> None:
    """One histogram of many files that hold next to nothing: what is left is the cost of a file."""
    for number in range(TINY_FILES):
        folder.mkdir(exist_ok=True)
        _write_file(folder / f"{number}.root", 1)
    axis = {"name": "x", "type": "regular", "source": "x", "bins": {"nbins": 10, "low": 0, "high": 100}}
    flow = {
        "version": "1.0",
        "use": {"profiles": ["hep"]},
        "data": {"datasets": [{"name": "d", "files": [str(file) for file in sorted(folder.glob("*.root"))]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "Events"}},
        "analysis": {"stages": [{"id": "H", "op": "hep.hist", "params": {"axes": [axis]}, "render": []}]},
    }
    (folder / "flow.yaml").write_text(json.dumps(flow), encoding="utf-8")
    found: list[tuple[float, float]] = []
    for number in range(rounds):
        run = [_CENOTE, "run", str(folder / "flow.yaml"), "--out", str(folder / f"ours-{number}"), "--quiet"]
        ours = _seconds(run)
        other = [fasthep, "run", str(folder / "flow.yaml"), "--outdir", str(folder / f"theirs-{number}")]
        found.append((ours, _seconds(other, quiet=True)))
    ratio = statistics.median(ours / theirs for ours, theirs in found)
    ours, theirs = (statistics.median(times) for times in zip(*found, strict=True))
    print(f"{TINY_FILES} tiny files: {ours:.1f} s, FAST-HEP {theirs:.1f} s: {ratio:.2f} ×")


def _seconds(command: Sequence[str], *, quiet: bool = False) -> float:
    """Of a fresh process with nothing remembered from earlier ones."""
    with tempfile.TemporaryDirectory(prefix="cenote-cache-") as cache, tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        done = subprocess.run(
            command,
            check=False,
            env={**os.environ, "CENOTE_CACHE": cache},
            stdout=said if quiet else None,
            stderr=said,
            timeout=1800,
        )
        took = time.perf_counter() - began
        if done.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{said.read().decode(errors='replace')}")
    return took


def _print(measured: Mapping[str, Measured]) -> None:
    floor = measured["bare Dask"]
    print(
        f"{'':16} {'tasks':>7} {'per task':>10} {'× bare':>7} {'start-up':>9} {'× bare':>7} {'whole':>8} {'× bare':>7}"
    )
    for name, found in measured.items():
        per_task, startup, whole = map(statistics.median, (found.per_task, found.startup, found.whole))
        ratios = [
            statistics.median(a / b for a, b in zip(mine, others, strict=True))
            for mine, others in (
                (found.per_task, floor.per_task),
                (found.startup, floor.startup),
                (found.whole, floor.whole),
            )
        ]
        print(
            f"{name:16} {found.tasks:7,} {1000 * per_task:7.2f} ms {ratios[0]:7.2f}"
            f" {startup:7.2f} s {ratios[1]:7.2f} {whole:6.1f} s {ratios[2]:7.2f}"
        )
    print(f"the goal is {GOAL} × bare per task on Dask")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fasthep", metavar="PROGRAM", help="the real FAST-HEP, for 200 tiny files as well")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
