"""Look for cliffs: does something ten times as large cost more than ten times as much?

python benchmarks/cliffs/run.py [--cases bins variations stages files events] [--scale 1.0] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "throughput"))

from results import of_cenote, of_json
from rounds import Contender, Machine, Turns, arguments, finish, flow_command, generated, histogram, middle, take_turns

HERE = Path(__file__).parent
THROUGHPUT = HERE.parent / "throughput"
TENTH = 10
STEEP = 12.0
"""Times the cost beyond start-up that ten times the size may have."""
FLAT = 1.15
"""Times the memory, where it should not depend on the size."""
CLEAR = 0.1
"""Of the cost of a start: what a tenth must cost beyond it before a factor says something."""


@dataclass(frozen=True)
class Case:
    """One thing that can be large."""

    what: str
    size: int
    files: Callable[[Path, int], list[Path]]
    """Of this size."""
    command: Callable[[Path, int, Sequence[Path], str], list[str]]
    """What runs with Cenote."""
    by_hand: Callable[[Path, int, Sequence[Path]], list[str]]
    found: Callable[[Path], Any]
    found_by_hand: Callable[[Path], Any]
    memory_is_constant: bool
    start: int = 1
    """So small that all it costs is the start."""


def cases() -> dict[str, Case]:
    """By name."""
    return {
        "bins": _filling("bins", "bins of a histogram", 1_000_000, _many_bins),
        "variations": _filling("variations", "histograms of one stage", 1_000, _many_variations),
        "stages": _filling("stages", "stages with a histogram", 1_000, _many_stages),
        "files": _analysing("files of 500 events", 10_000, _small_files),
        "events": _analysing("events of one file", 8_000_000, _one_file),
    }


def _filling(name: str, what: str, size: int, stages: Callable[[int], list[dict[str, Any]]]) -> Case:
    return Case(
        what=what,
        size=size,
        files=lambda data, _: generated(data, files=1, events=100_000, kind="few"),
        command=lambda folder, size, files, cenote: _fill(folder, stages(size), files, cenote),
        by_hand=lambda folder, size, files: _by_hand(name, folder, size, files),
        found=lambda folder: _projected(histogram(folder, "Last")["values"]),
        found_by_hand=lambda folder: json.loads((folder / "result.json").read_text()),
        memory_is_constant=False,
    )


def _analysing(what: str, size: int, files: Callable[[Path, int], list[Path]]) -> Case:
    return Case(
        what=what,
        size=size,
        files=files,
        command=_analysis,
        by_hand=_analysis_by_hand,
        found=of_cenote,
        found_by_hand=of_json,
        memory_is_constant=True,
    )


def _small_files(data: Path, size: int) -> list[Path]:
    return generated(data, files=size, distinct=100, events=500, basket=500, kind="few")


def _one_file(data: Path, size: int) -> list[Path]:
    return generated(data, files=1, events=size, kind="few")


def _histogram(name: str, *, bins: int = 100, **more: Any) -> dict[str, Any]:
    axis = {"name": "x", "type": "regular", "source": "MET_pt", "bins": {"nbins": bins, "low": 0, "high": 200}}
    return {"id": name, "op": "hep.hist", "params": {"axes": [axis], **more}, "render": []}


def _many_bins(size: int) -> list[dict[str, Any]]:
    return [_histogram("Last", bins=size)]


def _many_variations(size: int) -> list[dict[str, Any]]:
    """Weights whose sums are exact, so that the order of adding does not matter."""
    weights = {f"w{number}": f"genWeight * {1 + number / 1024}" for number in range(size)}
    return [_histogram("Last", variations={"weights": weights})]


def _many_stages(size: int) -> list[dict[str, Any]]:
    return [*(_histogram(f"H{number}") for number in range(size - 1)), _histogram("Last")]


def _fill(folder: Path, stages: list[dict[str, Any]], files: Sequence[Path], cenote: str) -> list[str]:
    """In four partitions, so that there is something to merge."""
    flow = {
        "use": {"profiles": ["hep"]},
        "data": {"datasets": [{"name": "mc", "files": [str(file) for file in files], "eventtype": "mc"}]},
        "sources": {"events": {"kind": "root_tree", "tree": "Events", "chunk_size": 25_000}},
        "analysis": {"stages": stages},
    }
    return flow_command(flow, folder, "--workers", "1", cenote=cenote)


def _by_hand(case: str, folder: Path, size: int, files: Sequence[Path]) -> list[str]:
    words = [case, str(size), str(folder / "result.json"), *map(str, files)]
    return [sys.executable, str(HERE / "handwritten.py"), *words]


def _analysis(folder: Path, _: int, files: Sequence[Path], cenote: str) -> list[str]:
    flow = yaml.safe_load((THROUGHPUT / "flow.yaml").read_text())
    flow["data"]["datasets"][0]["files"] = [str(file) for file in files]
    return flow_command(flow, folder, "--workers", "1", cenote=cenote)


def _analysis_by_hand(folder: Path, _: int, files: Sequence[Path]) -> list[str]:
    words = [str(folder / "result.json"), *map(str, files)]
    return [sys.executable, str(THROUGHPUT / "handwritten.py"), *words]


def _projected(values: list[Any]) -> list[float]:
    """Summed over all but the last axis."""
    if not isinstance(values[0], list):
        return [float(value) for value in values]
    return [float(sum(column)) for column in zip(*map(_projected, values), strict=True)]


@dataclass(frozen=True)
class Growth:
    """What ten times the size costs."""

    cpu: float | None
    """Times the CPU beyond start-up; None where a tenth costs too little to tell."""
    memory: float
    """Times the peak memory beyond start-up, or all of it where it should be constant."""
    cliff: bool


def growth(case: Case, start: Turns, tenth: Turns, full: Turns) -> Growth:
    """Compared within rounds where that is possible."""
    rounds = list(zip(start.cpu, tenth.cpu, full.cpu, strict=True))
    beyond = statistics.median(b - a for a, b, _ in rounds)
    clear = beyond > CLEAR * middle(start)
    cpu = statistics.median(c - a for a, _, c in rounds) / beyond if clear else None
    small, large = middle(tenth, "memory"), middle(full, "memory")
    if case.memory_is_constant:
        return Growth(cpu, large / small, (cpu or 0) > STEEP or large / small > FLAT)
    least = middle(start, "memory")
    memory = (large - least) / max(small - least, 0.1 * least)
    return Growth(cpu, memory, (cpu or 0) > STEEP or memory > STEEP)


def contenders(name: str, case: Case, size: int, data: Path, cenote: str) -> list[Contender]:
    """Start-up, a tenth and all of it; by hand the last two, for their results."""
    found = []
    for what, number in (("start", case.start), ("tenth", max(case.start, size // TENTH)), ("full", size)):
        files = case.files(data, number)

        def ours(folder: Path, number: int = number, files: Sequence[Path] = files) -> list[str]:
            return case.command(folder, number, files, cenote)

        def by_hand(folder: Path, number: int = number, files: Sequence[Path] = files) -> list[str]:
            return case.by_hand(folder, number, files)

        like = f"{name}: hand-written, {what}"
        found.append(Contender(like, by_hand, case.found_by_hand))
        found.append(Contender(f"{name}: cenote, {what}", ours, case.found, like=like))
    return found


def show(name: str, case: Case, size: int, turns: Mapping[str, Turns]) -> dict[str, float | str]:
    """Print one case; its figures."""
    three = [turns[f"{name}: cenote, {what}"] for what in ("start", "tenth", "full")]
    if problem := next((one.problem for one in three if one.problem), ""):
        print(f"{name:11} not measured: {problem}")
        return {}
    grown = growth(case, *three)
    cpu = [f"{middle(one):6.1f} s" for one in three]
    memory = [f"{middle(one, 'memory') / 1e6:6.0f} MB" for one in three]
    by_hand = turns[f"{name}: hand-written, full"]
    print(f"{name:11} {size:,} {case.what}: {'a CLIFF' if grown.cliff else 'no cliff'}")
    times = "too little to tell" if grown.cpu is None else f"{grown.cpu:.1f} ×"
    print(f"    CPU    start {cpu[0]}  a tenth {cpu[1]}  all {cpu[2]}  {times}  by hand {middle(by_hand):.1f} s")
    print(f"    memory start {memory[0]} a tenth {memory[1]} all {memory[2]} {grown.memory:.2f} ×")
    return {
        f"{name}: CPU": "–" if grown.cpu is None else grown.cpu,
        f"{name}: memory": grown.memory,
        f"{name}: × hand-written": middle(three[2]) / middle(by_hand),
    }


def main() -> None:
    """Each case in three sizes, in turns."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--cases", nargs="+", choices=list(cases()), default=list(cases()))
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    chosen = parser.parse_args()
    machine = Machine.now()
    figures: dict[str, float | str] = {}
    turns: dict[str, Turns] = {}
    for name in chosen.cases:
        case = cases()[name]
        size = max(case.start, int(case.size * chosen.scale))
        field = contenders(name, case, size, chosen.data, chosen.cenote)
        turns |= take_turns(field, rounds=chosen.rounds, first=() if turns else field[:2])
        figures |= show(name, case, size, turns)
    finish(machine, figures, turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
