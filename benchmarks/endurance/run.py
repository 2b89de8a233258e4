"""Run many short tasks on Dask and kill a worker now and then: equal numbers, flat memory, true journal.

    python benchmarks/endurance/run.py [--tasks 20000] [--kill-every 20] [--seconds 0.01] [--json FILE]

The promise: the numbers are those of an undisturbed local run, the driver's memory stays flat within 10 %, and no
result is reported as lost that was not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uproot

import cenote

HERE = Path(__file__).parent
GOAL = 1.10
"""The driver's memory at the end, as a multiple of that after the first tenth of the tasks."""
EVENTS = 10
"""Of a partition."""
BASKET = 1000
_LOOK_EVERY = 0.5
_CENOTE = str(Path(sys.executable).with_name("cenote"))


@dataclass
class Measured:
    """One disturbed run."""

    killed: list[str] = field(default_factory=list)
    """Names of the workers that were killed."""
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Tasks done, and the bytes that the driver held then."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What is promised, and what was found."""

    tasks: int
    killed: int
    equal: bool
    memory: float
    """Of the driver over the last tenth of the tasks, as a multiple of the second tenth."""
    lost: int
    """Results that were reported as lost."""
    lost_in_vain: int
    """Of those, the ones that were neither made again nor reported as not needed."""
    lost_without_a_kill: int
    """Reported as lost in a run that nothing disturbed."""

    @property
    def holds(self) -> bool:
        """Whether all promises are kept."""
        return self.equal and self.memory <= GOAL and self.lost_in_vain == 0 and self.lost_without_a_kill == 0


def main() -> None:
    """Run and print the verdict; the exit code tells it too."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="cenote-endurance-") as name:
        folder = Path(name)
        flow = _write_flow(folder, asked.tasks, asked.seconds)
        expected = _bits(cenote.load(flow, backend="local").run(folder / "local"))
        calm = _disturbed(flow, folder / "calm", kill_every=None)
        stormy = _disturbed(flow, folder / "stormy", kill_every=asked.kill_every)
        verdict = _verdict(folder, stormy, expected)
    _print(verdict, calm=calm, stormy=stormy)
    if asked.json:
        asked.json.write_text(json.dumps({**asdict(verdict), "memory_seen": stormy.memory}), encoding="utf-8")
    raise SystemExit(0 if verdict.holds else 1)


def _write_flow(folder: Path, tasks: int, seconds: float) -> Path:
    """Three stages in three pools, so that most tasks read what others left in the memory of workers."""
    partitions = tasks // 3
    file = folder / "events.root"
    with uproot.recreate(file, compression=uproot.ZSTD(3)) as out:
        tree = out.mktree("Events", {"x": np.dtype("f4")})
        for start in range(0, partitions * EVENTS, BASKET):
            tree.extend({"x": np.arange(start, min(start + BASKET, partitions * EVENTS), dtype="f4")})
    axis = {"name": "z", "type": "regular", "source": "z", "bins": {"nbins": 50, "low": -1, "high": 1}}
    stages = [
        {"id": "First", "op": "custom.first", "params": {"seconds": seconds}},
        {"id": "Second", "op": "custom.second", "params": {"seconds": seconds}, "execution": {"require": "second"}},
        {"id": "H", "op": "hep.hist", "params": {"axes": [axis]}, "execution": {"require": "third"}},
    ]
    flow = folder / "flow.yaml"
    content = {
        "plugins": [str(HERE / "ops.py")],
        "data": {"datasets": [{"name": "d", "files": [str(file)]}]},
        "sources": {"events": {"kind": "root_tree", "chunk_size": EVENTS}},
        "analysis": {"stages": stages},
        "execution": {"backend": "dask", "pools": {name: {"workers": 1} for name in ("default", "second", "third")}},
    }
    flow.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    return flow


def _disturbed(flow: Path, out: Path, *, kill_every: float | None) -> Measured:
    """A run in a process of its own, watched from outside."""
    measured, began = Measured(), time.monotonic()
    command = [_CENOTE, "run", str(flow), "--out", str(out), "--quiet"]
    next_kill = None if kill_every is None else began + kill_every
    with subprocess.Popen(command) as driver:
        done = _Journal(out / "journal.jsonl")
        while driver.poll() is None:
            time.sleep(_LOOK_EVERY)
            measured.memory += [(done.tasks(), memory) for memory in _memory_of(driver.pid)]
            if next_kill is not None and time.monotonic() >= next_kill:
                next_kill += kill_every or 0.0
                measured.killed += _kill_one(driver.pid, len(measured.killed))
    if driver.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {driver.returncode}")
    measured.seconds = time.monotonic() - began
    return measured


class _Journal:
    """Counts the tasks that are done, reading each line once."""

    def __init__(self, file: Path) -> None:
        self._file, self._read, self._done = file, 0, 0

    def tasks(self) -> int:
        """Until now."""
        if self._file.exists():
            with self._file.open("rb") as lines:
                lines.seek(self._read)
                more = lines.read()
            self._read += len(more)
            self._done += more.count(b'"TaskDone"')
        return self._done


def _memory_of(process: int) -> Iterator[int]:
    """Bytes that it holds; nothing once it is gone."""
    try:
        yield int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return


def _kill_one(driver: int, turn: int) -> list[str]:
    """A worker of this driver, each time another one."""
    workers = sorted(_workers_of(driver))
    if not workers:
        return []
    process, name = workers[turn % len(workers)]
    os.kill(process, signal.SIGKILL)
    return [name]


def _workers_of(driver: int) -> Iterator[tuple[int, str]]:
    children = Path(f"/proc/{driver}/task").glob("*/children")
    for process in {int(word) for file in children for word in file.read_text().split()}:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
        if "--name" in words:
            yield process, words[words.index("--name") + 1]


def _verdict(folder: Path, stormy: Measured, expected: Sequence[bytes]) -> Verdict:
    events = list(_events(folder / "stormy"))
    again: set[int] = set()
    lost = 0
    for event in events:
        match event["type"]:
            case "ResultLost":
                again.add(event["task"])
                lost += 1
            case "TaskDone" | "ResultNotNeeded":
                again.discard(event["task"])
    return Verdict(
        tasks=sum(event["type"] == "TaskDone" for event in events),
        killed=len(stormy.killed),
        equal=all(_bits(cenote.open_run(folder / name)) == expected for name in ("calm", "stormy")),
        memory=_growth(stormy.memory),
        lost=lost,
        lost_in_vain=len(again),
        lost_without_a_kill=sum(event["type"] == "ResultLost" for event in _events(folder / "calm")),
    )


def _events(out: Path) -> Iterator[dict[str, Any]]:
    with (out / "journal.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _growth(memory: Sequence[tuple[int, int]]) -> float:
    """The typical memory of the last tenth of the tasks against the second one: by then everything is loaded."""
    tasks = memory[-1][0]
    early = [held for done, held in memory if 0.1 * tasks <= done <= 0.2 * tasks]
    late = [held for done, held in memory if 0.9 * tasks <= done <= tasks]
    return statistics.median(late) / statistics.median(early)


def _bits(run: cenote.Run) -> list[bytes]:
    return [run.product("H").view(flow=True).tobytes()]


def _print(verdict: Verdict, *, calm: Measured, stormy: Measured) -> None:
    print(
        f"{verdict.tasks:,} tasks, {verdict.killed} workers killed, {stormy.seconds / calm.seconds:.2f} × undisturbed"
    )
    print(f"the numbers are {'equal' if verdict.equal else 'DIFFERENT'}")
    print(f"memory of the driver, end against beginning: {verdict.memory:.3f} ×")
    print(f"results lost: {verdict.lost}, of which {verdict.lost_in_vain} were not made again")
    print(f"results lost without a kill: {verdict.lost_without_a_kill}")
    print("it holds" if verdict.holds else f"it does NOT hold; the goal is {GOAL} × memory, and no loss in vain")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=0.01, help="that each task sleeps")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
