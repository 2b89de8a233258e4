"""Let contenders take turns, each in fresh processes, and compare what they used: ratios within a round.

This file imports nothing heavy: Linux counts the memory of a parent as the peak of its children.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
CENOTE = str(Path(sys.executable).with_name("cenote"))
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 30.0
"""Seconds that processes may live on after the command that started them."""

Found = Any  # what a contender found, such as a dictionary of histograms
Difference = Callable[[Found, Found], str]
"""What is not exactly equal, in words; empty when nothing is."""


class CommandFailed(Exception):  # noqa: N818  # it says what happened
    """With the last lines that the command wrote."""


@dataclass(frozen=True)
class Used:
    """By one command and all processes that it started."""

    began: float
    """Seconds since the epoch."""
    wall: float
    cpu: float
    """Seconds, user and system."""
    memory: int
    """The peak of the largest process, in bytes."""


def use(command: Sequence[str], *, folder: Path, cache: Path) -> Used:
    """Run it, with the metadata cache in the folder `cache`; what it prints goes to `folder`."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what outlives its parent becomes ours, and is counted
    log = folder / "output"
    with log.open("wb") as output:
        streams = [(os.POSIX_SPAWN_DUP2, output.fileno(), number) for number in (1, 2)]
        began, started = time.time(), time.monotonic()
        child = os.posix_spawn(command[0], list(command), _variables(cache), file_actions=streams)
        _, status, own = os.wait4(child, 0)
        wall = time.monotonic() - started
    all_used = [own, *_left_behind(command)]
    if status:
        said = log.read_text(errors="replace").strip().splitlines()
        raise CommandFailed(" ".join(said[-3:]) or f"status {status}")
    cpu = sum(used.ru_utime + used.ru_stime for used in all_used)
    return Used(began, wall, cpu, max(used.ru_maxrss for used in all_used) * 1024)


def _left_behind(command: Sequence[str]) -> Iterator[Any]:
    """What processes used whose parents ended before them."""
    limit = time.monotonic() + _PATIENCE
    while time.monotonic() < limit:
        try:
            child, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child:
            yield used
        else:
            time.sleep(0.02)
    raise CommandFailed(f"{' '.join(command[:2])} left processes behind that do not end")


def _variables(cache: Path) -> dict[str, str]:
    """Compiled modules are kept: nobody's second run compiles all of Python's packages. Results are not: each run
    computes its own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compiled = str(HERE / "data" / "compiled")
    return {**kept, "CENOTE_CACHE": str(cache), "CENOTE_STORE": "run", "PYTHONPYCACHEPREFIX": compiled}


@dataclass(frozen=True)
class Contender:
    """One way to do the work."""

    name: str
    command: Callable[[Path], Sequence[str]]
    """Folder to write to → what to run."""
    found: Callable[[Path], Found] | None = None
    """What it found, from the folder that it wrote to."""
    like: str = ""
    """The contender that must have found the same; the first one's result is compared by default."""
    cache: Path | None = None
    """Keeps the metadata cache from run to run; by default every run begins with an empty one."""
    of_run: Callable[[Path, Used], Mapping[str, float]] | None = None
    """Further numbers of a run, such as times from its journal."""


@dataclass
class Turns:
    """The runs of one contender."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    more: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""
    """Why it could not be run."""
    unlike: str = ""
    """Where its result differs from the one that it is compared with."""

    def of(self, what: str) -> Sequence[float]:
        """`cpu`, `wall`, `memory`, or one of `more`."""
        own: dict[str, Sequence[float]] = {"cpu": self.cpu, "wall": self.wall, "memory": self.memory}
        return own[what] if what in own else self.more[what]

    def add(self, used: Used, more: Mapping[str, float]) -> None:
        """One run."""
        self.cpu.append(used.cpu)
        self.wall.append(used.wall)
        self.memory.append(used.memory)
        for name, value in more.items():
            self.more.setdefault(name, []).append(value)


def middle(turns: Turns, what: str = "cpu") -> float:
    """The median over the rounds."""
    return statistics.median(turns.of(what))


def ratio(turns: Turns, floor: Turns, what: str = "cpu") -> float:
    """The median of the ratios within rounds."""
    return statistics.median(one / other for one, other in zip(turns.of(what), floor.of(what), strict=False))


def loop_ratio(turns: Turns, start: Turns, floor: Turns, floor_start: Turns) -> float | None:
    """As `ratio` of CPU, without what each of the two uses when there is next to nothing to do.

    None where that is all: a small difference of large numbers says nothing.
    """
    loop = middle(floor) - middle(floor_start)
    return (middle(turns) - middle(start)) / loop if loop > 0.1 * middle(floor_start) else None


def not_equal(left: Found, right: Found) -> str:
    """A difference for results that need no words."""
    return "" if left == right else "something else was found"


def take_turns(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    first: Sequence[Contender] = (),
    difference: Difference = not_equal,
) -> dict[str, Turns]:
    """Every contender in every round, one after the other, so that a slow minute hits them all.

    `first` run once before and do not count: Python compiles its modules, and what is to be known becomes known.
    """
    turns = {contender.name: Turns() for contender in contenders}
    answers: dict[str, Found] = {}
    for contender in first:
        _take_turn(contender, Turns(), answers, difference)
    for number in range(rounds):
        for contender in contenders:
            if not turns[contender.name].problem:
                said = _take_turn(contender, turns[contender.name], answers, difference)
                print(f"round {number + 1}: {contender.name}: {said}", file=sys.stderr)
    return turns


def _take_turn(contender: Contender, turns: Turns, answers: dict[str, Found], difference: Difference) -> str:
    """How it went, in words."""
    folder = Path(tempfile.mkdtemp(prefix="cenote-benchmark-"))
    try:
        used = use(contender.command(folder), folder=folder, cache=contender.cache or folder / "cache")
        turns.add(used, contender.of_run(folder, used) if contender.of_run else {})
        if contender.found:
            found = contender.found(folder)
            expected = answers.setdefault(contender.like or contender.name, found)
            turns.unlike = turns.unlike or difference(expected, found)
        return f"{used.cpu:.2f} s CPU, {used.wall:.2f} s"
    except CommandFailed as problem:
        turns.problem = str(problem)
        return turns.problem
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def flow_command(flow: Mapping[str, Any], folder: Path, *options: str, cenote: str = CENOTE) -> list[str]:
    """Write the workflow to the folder; what runs it, with results in `out`."""
    (folder / "flow.yaml").write_text(yaml.safe_dump(dict(flow), sort_keys=False), encoding="utf-8")
    return [cenote, "run", str(folder / "flow.yaml"), "--out", str(folder / "out"), "--quiet", *options]


def histogram(folder: Path, stage: str) -> dict[str, list[float]]:
    """`values` and, where weighted, `variances`, with under- and overflow: of a run that wrote to `out`."""
    stored = json.loads((folder / "out" / "products" / f"{stage}.json").read_text())["storage"]
    return {name: stored[name] for name in ("values", "variances") if name in stored}


def generated(data: Path, **options: str | int) -> list[Path]:
    """Files of throughput/generate.py, written once, by another process."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(HERE / "throughput" / "generate.py"), str(data), *words]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Path(line) for line in said.splitlines()]


def arguments(description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """What all benchmarks can be asked."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder for the generated files")
    parser.add_argument("--cenote", metavar="PROGRAM", default=CENOTE, help="another cenote than this one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    return parser


@dataclass(frozen=True)
class Machine:
    """Where and when something was measured."""

    date: str
    load: float
    """At the beginning, over one minute."""
    cpus: int
    python: str
    revision: str

    @classmethod
    def now(cls) -> Machine:
        """Of this moment."""
        command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
        said = subprocess.run(command, check=False, capture_output=True, text=True)
        return cls(
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            load=round(os.getloadavg()[0], 1),
            cpus=os.cpu_count() or 1,
            python=platform.python_version(),
            revision=said.stdout.strip(),
        )


def finish(
    machine: Machine,
    figures: Mapping[str, float | str],
    turns: Mapping[str, Turns],
    *,
    json_file: Path | None,
    ours: Callable[[str], bool] = lambda name: "cenote" in name,
) -> None:
    """Write the measurements, and end with an error if one of `ours` failed or found something else."""
    print(f"load {machine.load} on {machine.cpus} CPUs when it began, {machine.date}, {machine.revision}")
    wrong = [f"{name}: {one.problem or one.unlike}" for name, one in turns.items() if one.problem or one.unlike]
    if json_file:
        runs = {name: asdict(one) for name, one in turns.items()}
        content = {"machine": asdict(machine), "figures": dict(figures), "wrong": wrong, "runs": runs}
        json_file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if failed := [line for line in wrong if ours(line)]:
        sys.exit("failed, or found something else:\n" + "\n".join(failed))
