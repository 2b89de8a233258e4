"""Measure the same analysis written in several ways, and print how they compare: ratios, not seconds."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from results import Result, difference, of_cenote, of_fasthep, of_json

HERE = Path(__file__).parent
Command = Callable[[Path, Sequence[Path]], list[str]]
"""Folder to write to and files to read → what to run."""


@dataclass(frozen=True)
class Contender:
    """One way to write the analysis."""

    name: str
    command: Command
    result: Callable[[Path], Result]
    """What it found, from the folder that it wrote to."""


@dataclass
class Measured:
    """Its runs, in seconds and bytes; CPU time is that of all its processes."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    startup_cpu: list[float] = field(default_factory=list)
    problem: str = ""
    """Why it could not be run."""
    unlike: str = ""
    """Where its results differ from those of the first contender."""


def contenders(coffea: str | None, fasthep: str | None, modifiers: Sequence[str] = ()) -> list[Contender]:
    """The hand-written loop first: the others are compared with it."""
    python = sys.executable
    cenote = str(Path(python).with_name("cenote"))
    found = [
        Contender("a hand-written", _script(python, "handwritten.py"), of_json),
        Contender("b cenote, 1 worker", _flow(cenote, "--out", "--workers", "1", "--quiet"), of_cenote),
        Contender("c cenote, all cores", _flow(cenote, "--out", "--quiet"), of_cenote),
    ]
    if coffea:
        found.append(Contender("d coffea", _script(coffea, "coffea_version.py"), of_json))
    if fasthep:
        found.append(Contender("e FAST-HEP", _flow(fasthep, "--outdir"), of_fasthep))
    for modifier in modifiers:
        around = ("--set", f"execution.modifiers=[{modifier}]")
        observed = _flow(cenote, "--out", "--workers", "1", "--quiet", *around)
        found.append(Contender(f"f cenote, 1 worker, {modifier}", observed, of_cenote))
    return found


def _script(python: str, name: str) -> Command:
    return lambda folder, files: [python, str(HERE / name), str(folder / "result.json"), *map(str, files)]


def _flow(program: str, *options: str) -> Command:
    def command(folder: Path, files: Sequence[Path]) -> list[str]:
        flow = yaml.safe_load((HERE / "flow.yaml").read_text())
        flow["data"]["datasets"][0]["files"] = [str(file) for file in files]
        (folder / "flow.yaml").write_text(yaml.safe_dump(flow))
        return [program, "run", str(folder / "flow.yaml"), options[0], str(folder / "out"), *options[1:]]

    return command


@dataclass(frozen=True)
class Run:
    """One run in a fresh process: seconds, peak bytes of its largest process, and what it found or why not."""

    cpu: float
    wall: float
    memory: int
    result: Result | None
    problem: str = ""


def measure(contender: Contender, files: Sequence[Path], *, read: bool = True) -> Run:
    """Run it once, with nothing remembered from earlier runs."""
    folder = Path(tempfile.mkdtemp(prefix="throughput-"))
    try:
        command = contender.command(folder, files)
        surroundings = _surroundings(folder)
        with (folder / "output").open("wb") as output:
            streams = [(os.POSIX_SPAWN_DUP2, output.fileno(), number) for number in (1, 2)]
            started = time.monotonic()
            child = os.posix_spawn(command[0], command, surroundings, file_actions=streams)
            _, status, used = os.wait4(child, 0)
            wall = time.monotonic() - started
        said = (folder / "output").read_text(errors="replace").strip().splitlines()
        problem = (" ".join(said[-3:]) or f"status {status}") if status else ""
        result = contender.result(folder) if read and not status else None
        return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024, result, problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _surroundings(folder: Path) -> dict[str, str]:
    """No metadata from earlier runs, but compiled modules: nobody's second run compiles all of Python's packages."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "CENOTE_CACHE": str(folder / "cache"),
        "PYTHONPYCACHEPREFIX": str(HERE.parent / "data" / "compiled"),
    }


def compare(field_: Sequence[Contender], files: Sequence[Path], tiny: Path, *, rounds: int) -> dict[str, Measured]:
    """Every contender in every round, one after the other, so that a slow minute hits them all."""
    found = {contender.name: Measured() for contender in field_}
    reference: Result | None = None
    for contender in field_:
        measure(contender, [tiny], read=False)
    for number in range(rounds):
        for contender in field_:
            one = found[contender.name]
            if one.problem:
                continue
            run = measure(contender, files)
            one.problem = run.problem
            if run.result is None:
                continue
            reference = reference or run.result
            one.unlike = one.unlike or difference(reference, run.result)
            one.cpu.append(run.cpu)
            one.wall.append(run.wall)
            one.memory.append(run.memory)
            one.startup_cpu.append(measure(contender, [tiny], read=False).cpu)
            print(f"round {number + 1}: {contender.name}: {run.cpu:.2f} s CPU, {run.wall:.2f} s", file=sys.stderr)
    return found


def table(found: dict[str, Measured], events: int) -> str:
    """Ratios to the first contender: medians over the rounds."""
    first = next(iter(found.values()))
    floor_cpu, floor_wall = statistics.median(first.cpu), statistics.median(first.wall)
    lines = [
        f"{events:,} events; ratios to the hand-written loop ({floor_cpu:.2f} s CPU)",
        "",
        f"{'':22}{'CPU':>7}{'wall':>7}{'loop':>7}{'k events/s':>12}{'memory':>10}{'start-up':>10}  results",
    ]
    for name, one in found.items():
        if not one.cpu:
            lines.append(f"{name:22}  not measured: {one.problem}")
            continue
        cpu, wall, start = (statistics.median(runs) for runs in (one.cpu, one.wall, one.startup_cpu))
        loop = (cpu - start) / max(1e-9, floor_cpu - statistics.median(first.startup_cpu))
        same = f"DIFFERENT: {one.unlike}" if one.unlike else "equal, bin by bin"
        lines.append(
            f"{name:22}{cpu / floor_cpu:7.2f}{wall / floor_wall:7.2f}{loop:7.2f}{events / wall / 1000:12,.0f}"
            f"{max(one.memory) / 1e6:7.0f} MB{start:8.2f} s  {same}"
        )
    return "\n".join(lines)


def generated(chosen: argparse.Namespace, *, files: int, events: int) -> list[Path]:
    """Files to measure with, written by another process: Linux counts a parent's memory as its children's peak."""
    options = ["--files", str(files), "--events", str(events), "--basket", str(chosen.basket)]
    command = [sys.executable, str(HERE / "generate.py"), str(chosen.data), *options, *["--wide"] * chosen.wide]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Path(line) for line in said.splitlines()]


def main() -> None:
    """`python run.py`: see the README of this folder."""
    parser = argparse.ArgumentParser(description="Compare ways to write one analysis.")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    parser.add_argument("--basket", type=int, default=50_000, help="events per basket")
    parser.add_argument("--wide", action="store_true", help="files of about 900 branches instead of about 80")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=HERE.parent / "data", help="folder for the generated files")
    parser.add_argument("--coffea", metavar="PYTHON", help="an interpreter that has coffea; else this one, if it has")
    parser.add_argument("--fasthep", metavar="PROGRAM", help="the fasthep command of its own environment")
    parser.add_argument("--modifiers", nargs="*", default=[], help="also measure (b) with each of these on every stage")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to this file")
    chosen = parser.parse_args()
    files = generated(chosen, files=chosen.files, events=chosen.events)
    tiny = generated(chosen, files=1, events=1)[0]
    coffea = chosen.coffea or (sys.executable if importlib.util.find_spec("coffea") else None)
    found = compare(contenders(coffea, chosen.fasthep, chosen.modifiers), files, tiny, rounds=chosen.rounds)
    events = chosen.files * chosen.events
    print(table(found, events))
    for name, asked in (("coffea", coffea), ("FAST-HEP", chosen.fasthep)):
        if not asked:
            print(f"{name} was not measured: give --{name.lower().replace('-', '')}")
    if chosen.json:
        measured: dict[str, Any] = {name: asdict(one) for name, one in found.items()}
        chosen.json.write_text(json.dumps({"events": events, "wide": chosen.wide, "measured": measured}, indent=1))
    if any(one.unlike or one.problem for name, one in found.items() if "cenote" in name):
        sys.exit("cenote failed, or found something else")


if __name__ == "__main__":
    main()
