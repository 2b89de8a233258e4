"""Measure the day of an analyst: an analysis is run, one thing is changed, it is run again, and so on.

python benchmarks/again/run.py [--files 8] [--rounds 3] [--peers PYTHON] [--planned 10000] [--json FILE]

Every figure is the CPU of all processes of a run, divided by that of the first run of the same round.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Machine, Turns, arguments, finish, flow_command, generated, use

HERE = Path(__file__).parent
BY_HAND = HERE.parent / "throughput" / "handwritten.py"
FIRST, NOTHING_KEPT, AGAIN = "first run", "first run, nothing kept", "the same again"
HELPER = '''"""Own code of the analysis."""
import numpy as np

from cenote import operation


@operation("custom.scale", reads=["MET_pt"], adds=["met_scaled"])
def scale(events, *, factor: float = 1.02):
    return {"met_scaled": np.asarray(events["MET_pt"]) * factor}
'''
Flow = dict[str, Any]


class Day:
    """One analysis in a folder, as it is changed."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self.folder, self.new = folder, files[-1]
        self.files = [self.own(file) for file in files[:-1]]
        self.flow: Flow = yaml.safe_load((HERE.parent / "throughput" / "flow.yaml").read_text())
        self.flow["plugins"] = ["ops.py"]
        met = {"name": "met", "type": "regular", "source": "met_scaled", "bins": {"nbins": 100, "low": 0, "high": 200}}
        self.flow["analysis"]["stages"] += [
            {"id": "scaled", "op": "custom.scale", "from": "counts"},
            {"id": "met_after", "op": "hep.hist", "from": "scaled", "params": {"axes": [met]}, "render": []},
        ]
        (folder / "ops.py").write_text(HELPER)

    def own(self, file: Path) -> Path:
        """A file of this day: what is touched is not the others'."""
        own = self.folder / file.name
        shutil.copyfile(file, own)
        return own

    def stage(self, name: str) -> Flow:
        """The settings of a stage."""
        found: Flow = next(one for one in self.flow["analysis"]["stages"] if one["id"] == name)
        return found

    def command(self, cenote: str, *options: str, out: str = "out") -> list[str]:
        """What runs the analysis as it is now."""
        flow = copy.deepcopy(self.flow)
        flow["data"]["datasets"][0]["files"] = [str(file) for file in self.files]
        words = flow_command(flow, self.folder, *options, cenote=cenote)
        words[words.index("--out") + 1] = str(self.folder / out)
        return words

    def tasks(self) -> str:
        """How many tasks of the last run ran: `2 of 38`."""
        tasks = json.loads((self.folder / "out" / "summary.json").read_text())["tasks"]
        return f"{tasks['total'] - tasks['reused']} of {tasks['total']}"


def _label(day: Day) -> None:
    day.stage("met")["params"]["axes"][0]["label"] = "missing momentum"


def _last_cut(day: Day) -> None:
    day.stage("two_muons")["params"]["selection"]["All"][1]["expr"] = "nGoodMuon >= 3"


def _comment(day: Day) -> None:
    (day.folder / "ops.py").write_text(HELPER + "# looked at on Monday\n")


def _function(day: Day) -> None:
    (day.folder / "ops.py").write_text(HELPER.replace("* factor", "* factor + 1"))


def _touched(day: Day) -> None:
    os.utime(day.files[0])


def _file_added(day: Day) -> None:
    day.files.append(day.own(day.new))


def _group(day: Day) -> None:
    day.flow["data"]["datasets"][0]["group"] = "simulation"


CHANGES: Mapping[str, Callable[[Day], None]] = {
    AGAIN: lambda _: None,
    "label of an axis": _label,
    "group of a dataset": _group,
    "comment in own code": _comment,
    "one file touched": _touched,
    "last cut": _last_cut,
    "function of own code": _function,
    "one file added": _file_added,
}
"""What is changed, one after the other; then the analysis runs again."""


def days(
    files: Sequence[Path], *, cenote: str, rounds: int, peers: str | None
) -> tuple[dict[str, Turns], dict[str, str]]:
    """What each run of each round used, and how many tasks ran."""
    turns: dict[str, Turns] = {}
    tasks: dict[str, str] = {}

    def run(name: str, command: Sequence[str], folder: Path) -> None:
        used = use(command, folder=folder, cache=folder / "cache")
        turns.setdefault(name, Turns()).add(used, {})
        print(f"{name}: {used.cpu:.2f} s CPU, {used.wall:.2f} s", file=sys.stderr)

    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="cenote-again-") as name:
            folder = Path(name)
            day = Day(folder, files)
            nothing = day.command(cenote, "--set", "execution.store.limit=1B", out="nothing-kept")
            run("warm-up", day.command(cenote, out="warm-up"), folder)
            run(NOTHING_KEPT, nothing, folder)
            run(FIRST, day.command(cenote), folder)
            for change, make in CHANGES.items():
                make(day)
                run(change, day.command(cenote), folder)
                tasks[change] = day.tasks()
            run("by hand, after any change", _by_hand(sys.executable, BY_HAND, day), folder)
            for what, command in _peers(peers, day):
                run(what, command, folder)
    return turns, tasks


def _by_hand(python: str, script: Path, day: Day) -> list[str]:
    return [python, str(script), str(day.folder / "result.json"), *map(str, day.files)]


def _peers(python: str | None, day: Day) -> Iterator[tuple[str, list[str]]]:
    """Coffea computes everything again; Snakemake, with a job for each file, what is older than its input or rule."""
    if not python:
        return
    yield "coffea, after any change", _by_hand(python, HERE.parent / "throughput" / "coffea_version.py", day)
    snakemake = [python, "-m", "snakemake", "--quiet", "all", "--cores", str(os.cpu_count()), "--directory"]
    snakemake += [str(day.folder), "--snakefile", str(HERE / "Snakefile"), "--config"]
    config = [f"files={','.join(map(str, day.files))}", f"script={BY_HAND}", f"python={sys.executable}"]
    yield "Snakemake, first run", [*snakemake, *config, "label=one"]
    yield "Snakemake, the same again", [*snakemake, *config, "label=one"]
    yield "Snakemake, parameter of all jobs", [*snakemake, *config, "label=two"]
    os.utime(day.files[0])
    yield "Snakemake, one file touched", [*snakemake, *config, "label=two"]


def planned(files: int, cenote: str, stages: int = 20) -> dict[str, float]:
    """Seconds and bytes that a dry run takes when all of its results are there: many files, some stages."""
    spec = importlib.util.spec_from_file_location("planning", HERE.parent / "planning" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    planning = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(planning)
    with tempfile.TemporaryDirectory(prefix="cenote-again-") as name:
        folder = Path(name)
        planning.make_files(folder / "data", files)
        (folder / "flow.yaml").write_text(planning.workflow(stages, 10, files))
        command = [cenote, "run", str(folder / "flow.yaml"), "--out", str(folder / "out"), "--quiet"]
        use([*command, "--no-report"], folder=folder, cache=folder / "cache")
        used = [use([*command, "--dry-run"], folder=folder, cache=folder / "cache") for _ in range(3)]
        return {
            f"{files:,} files × {stages} stages planned again, s": statistics.median(one.wall for one in used),
            f"{files:,} files × {stages} stages planned again, MB": max(one.memory for one in used) / 1e6,
        }


def main() -> None:
    """Measure, and print a line for each change."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--events", type=int, default=250_000, help="of each file")
    parser.add_argument("--peers", metavar="PYTHON", help="an environment that has coffea and snakemake")
    parser.add_argument("--planned", type=int, metavar="FILES", help="also plan so many files again")
    chosen = parser.parse_args()
    machine = Machine.now()
    files = generated(chosen.data, files=chosen.files, events=chosen.events)
    turns, tasks = days(files, cenote=chosen.cenote, rounds=chosen.rounds, peers=chosen.peers)
    floor = turns[FIRST].cpu
    found: dict[str, float] = {}
    for name, one in turns.items():
        if name != "warm-up":
            found[name] = statistics.median(mine / first for mine, first in zip(one.cpu, floor, strict=True))
            print(f"{name:36}{found[name]:6.2f}   {tasks.get(name, '')}")
    if chosen.planned:
        more = planned(chosen.planned, chosen.cenote)
        found |= more
        for name, value in more.items():
            print(f"{name:56}{value:8.1f}")
    finish(machine, found, turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
