"""Measure the queries of the ADL benchmark: in YAML against written by hand, all in one pass and some alone.

python benchmarks/adl/run.py [--files 8] [--alone q1 q3] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import (
    Contender,
    Machine,
    Turns,
    arguments,
    finish,
    flow_command,
    generated,
    histogram,
    loop_ratio,
    middle,
    ratio,
    take_turns,
)

HERE = Path(__file__).parent
ALL = tuple(f"q{number}" for number in range(1, 9))
FLOW: dict[str, Any] = yaml.safe_load((HERE / "flow.yaml").read_text())


ROUNDED = frozenset({"q5", "q6", "q7", "q8"})
"""Queries that compute masses or angles."""
MOVED = 1e-4
"""The share of entries that may lie elsewhere for it."""


def query_of(stage: Mapping[str, Any]) -> str:
    """`q3` for the stage `q3_jets`."""
    return str(stage["id"]).partition("_")[0]


IN_YAML = tuple(sorted({query_of(stage) for stage in FLOW["analysis"]["stages"]}))
"""The queries that need no code of one's own."""


def hand_written(queries: Sequence[str], files: Sequence[Path], what: str = "") -> Contender:
    """These queries in one pass."""

    def command(folder: Path) -> list[str]:
        words = [str(folder / "result.json"), ",".join(queries), *map(str, files)]
        return [sys.executable, str(HERE / "handwritten.py"), *words]

    def found(folder: Path) -> Any:
        return json.loads((folder / "result.json").read_text())

    return Contender(_name("hand-written", queries, what), command, found)


def in_yaml(queries: Sequence[str], files: Sequence[Path], cenote: str, what: str = "") -> Contender:
    """The same, by one worker."""
    stages = [stage for stage in FLOW["analysis"]["stages"] if query_of(stage) in queries]
    dataset = {**FLOW["data"]["datasets"][0], "files": [str(file) for file in files]}
    flow = {**FLOW, "data": {"datasets": [dataset]}, "analysis": {"stages": stages}}
    filled = [stage["id"] for stage in stages if stage["op"] == "hep.hist"]

    def found(folder: Path) -> Any:
        return {name: histogram(folder, name)["values"] for name in filled}

    return Contender(
        _name("cenote", queries, what),
        lambda folder: flow_command(flow, folder, "--workers", "1", cenote=cenote),
        found,
        like=_name("hand-written", queries, what),
    )


def _name(who: str, queries: Sequence[str], what: str) -> str:
    return f"{who}, {title(queries)}{what}"


def title(queries: Sequence[str]) -> str:
    """`Q3`, or `Q1–Q4`."""
    return queries[0].upper() if len(queries) == 1 else f"{queries[0].upper()}–{queries[-1].upper()}"


def figures(turns: Mapping[str, Turns], sets: Sequence[Sequence[str]]) -> dict[str, float | str]:
    """CPU of the loop and of the whole process, as ratios to the hand-written one."""
    found: dict[str, float | str] = {}
    for queries in sets:
        ours, start = turns[_name("cenote", queries, "")], turns[_name("cenote", queries, ", start")]
        floor, floor_start = turns[_name("hand-written", queries, "")], turns[_name("hand-written", queries, ", start")]
        found[f"{title(queries)}: hand-written"] = f"{middle(floor) - middle(floor_start):.2f} s"
        if ours.cpu and start.cpu:
            found[f"{title(queries)}: CPU"] = ratio(ours, floor)
            if (loop := loop_ratio(ours, start, floor, floor_start)) is not None:
                found[f"{title(queries)}: loop"] = loop
    return found


def moved(expected: Mapping[str, Sequence[float]], found: Mapping[str, Sequence[float]]) -> str:
    """Where more entries lie in other bins than rounding can explain; empty where there are none.

    The program by hand computes masses and angles in the single precision of the files, Cenote in double precision.
    """
    for name, values in expected.items():
        off = sum(abs(one - other) for one, other in zip(values, found[name], strict=True))
        if off > (MOVED * sum(values) if query_of({"id": name}) in ROUNDED else 0):
            return f"{name}: {off / 2:g} of {sum(values):g} entries are elsewhere"
    return ""


def main() -> None:
    """Run the queries in turns and print the ratios."""
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    parser.add_argument(
        "--alone",
        nargs="*",
        choices=ALL,
        default=[query for query in ALL if query != "q2"],
        help="queries to run alone too",
    )
    chosen = parser.parse_args()
    files = generated(chosen.data, files=chosen.files, events=chosen.events)
    tiny = generated(chosen.data, files=1, events=1)
    sets = [IN_YAML, *((query,) for query in chosen.alone if query in IN_YAML)]
    contenders = []
    for queries in sets:
        for which, what in ((files, ""), (tiny, ", start")):
            contenders += [hand_written(queries, which, what), in_yaml(queries, which, chosen.cenote, what)]
    left_out = [query for query in ALL if query not in IN_YAML]
    if left_out:
        contenders += [hand_written(ALL, files), hand_written(ALL, tiny, ", start")]
    machine = Machine.now()
    turns = take_turns(contenders, rounds=chosen.rounds, first=contenders[2:4], difference=moved)
    found = figures(turns, sets)
    if left_out:
        loop = middle(turns[_name("hand-written", ALL, "")]) - middle(turns[_name("hand-written", ALL, ", start")])
        found[f"{title(ALL)}: hand-written"] = f"{loop:.2f} s"
    print(f"{chosen.files * chosen.events:,} events; CPU of the loop (and of the whole process) × hand-written")
    for queries in sets:
        words = [found.get(f"{title(queries)}: {what}", float("nan")) for what in ("loop", "CPU")]
        floor = found[f"{title(queries)}: hand-written"]
        print(f"{title(queries):8}{words[0]:7.2f} ({words[1]:.2f})   hand-written {floor}")
    if left_out:
        print(f"left out, because YAML cannot express them without own code: {', '.join(map(str.upper, left_out))}")
        print(f"{title(ALL)} by hand, in one pass: {found[f'{title(ALL)}: hand-written']}")
    finish(machine, found, turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
