"""Measure the same analysis written in several ways, and print how they compare: ratios, not seconds."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from results import Result, difference, of_cenote, of_fasthep, of_json
from rounds import (
    Contender,
    Machine,
    Turns,
    arguments,
    finish,
    flow_command,
    generated,
    loop_ratio,
    middle,
    ratio,
    take_turns,
)

HERE = Path(__file__).parent
HAND_WRITTEN = "a hand-written"
Ways = dict[str, tuple[Callable[[Path, Sequence[Path]], list[str]], Callable[[Path], Result]]]
"""Name → folder to write to and files to read → what to run; and what it found, from that folder."""


def ways(chosen: argparse.Namespace, coffea: str | None) -> Ways:
    """The hand-written loop first: the others are compared with it."""
    found: Ways = {
        HAND_WRITTEN: (_script(sys.executable, "handwritten.py"), of_json),
        "b cenote, 1 worker": (_flow(chosen.cenote, "--workers", "1"), of_cenote),
        "c cenote, all cores": (_flow(chosen.cenote), of_cenote),
    }
    if coffea:
        found["d coffea"] = (_script(coffea, "coffea_version.py"), of_json)
    if chosen.fasthep:
        found["e FAST-HEP"] = (_fasthep(chosen.fasthep), of_fasthep)
    for modifier in chosen.modifiers:
        around = ("--set", f"execution.modifiers=[{modifier}]")
        found[f"f cenote, 1 worker, {modifier}"] = (_flow(chosen.cenote, "--workers", "1", *around), of_cenote)
    if chosen.known:
        found["g cenote, 1 worker, files known"] = (_flow(chosen.cenote, "--workers", "1"), of_cenote)
    return found


def _script(python: str, name: str) -> Callable[[Path, Sequence[Path]], list[str]]:
    return lambda folder, files: [python, str(HERE / name), str(folder / "result.json"), *map(str, files)]


def _flow(program: str, *options: str) -> Callable[[Path, Sequence[Path]], list[str]]:
    def command(folder: Path, files: Sequence[Path]) -> list[str]:
        flow = yaml.safe_load((HERE / "flow.yaml").read_text())
        flow["data"]["datasets"][0]["files"] = [str(file) for file in files]
        return flow_command(flow, folder, *options, cenote=program)

    return command


def _fasthep(program: str) -> Callable[[Path, Sequence[Path]], list[str]]:
    def command(folder: Path, files: Sequence[Path]) -> list[str]:
        words = _flow(program)(folder, files)
        return [*words[:3], "--outdir", words[4]]

    return command


def compare(
    ways: Ways, files: Sequence[Path], tiny: Sequence[Path], *, rounds: int, memory: Path
) -> tuple[dict[str, Turns], dict[str, Turns]]:
    """What each way uses for the files, and for a file with one event."""

    def contender(name: str, files: Sequence[Path], what: str = "") -> Contender:
        command, found = ways[name]
        known = memory / f"known{what}" if name.endswith("files known") else None
        like = HAND_WRITTEN + what
        return Contender(name + what, lambda folder: command(folder, files), found, like=like, cache=known)

    whole, start = ([contender(name, files) for name in ways], [contender(name, tiny, ", start") for name in ways])
    starts = start if list(files) != list(tiny) else []
    contenders = [one for name in range(len(whole)) for one in (whole[name], *starts[name : name + 1])]
    first = [*start, *(one for one in whole if one.cache)]
    turns = take_turns(contenders, rounds=rounds, first=first, difference=difference)
    return {one.name: turns[one.name] for one in whole}, {
        name: turns[f"{name}, start" if starts else name] for name in ways
    }


def figures(whole: Mapping[str, Turns], start: Mapping[str, Turns]) -> dict[str, float | str]:
    """Ratios to the hand-written loop: medians over the rounds."""
    floor, floor_start = whole[HAND_WRITTEN], start[HAND_WRITTEN]
    found: dict[str, float | str] = {"hand-written": f"{middle(floor):.2f} s"}
    for name, one in whole.items():
        if one.cpu:
            found[f"{name}: CPU"] = ratio(one, floor)
            found[f"{name}: wall"] = ratio(one, floor, "wall")
            if (loop := loop_ratio(one, start[name], floor, floor_start)) is not None:
                found[f"{name}: loop"] = loop
            found[f"{name}: start-up"] = ratio(start[name], floor_start)
    return found


def table(whole: Mapping[str, Turns], start: Mapping[str, Turns], events: int) -> str:
    """The figures, with what is not a ratio beside them."""
    found = figures(whole, start)
    head = ("CPU", "wall", "loop", "k events/s", "memory", "start-up")
    lines = [
        f"{events:,} events; ratios to the hand-written loop ({found['hand-written']} CPU)",
        "",
        f"{'':32}{head[0]:>7}{head[1]:>7}{head[2]:>7}{head[3]:>12}{head[4]:>10}{head[5]:>10}  results",
    ]
    for name, one in whole.items():
        if not one.cpu:
            lines.append(f"{name:32}  not measured: {one.problem}")
            continue
        ratios = [found.get(f"{name}: {what}", float("nan")) for what in head[:3]]
        same = f"DIFFERENT: {one.unlike}" if one.unlike else "equal, bin by bin"
        speed, memory = events / middle(one, "wall") / 1000, max(one.memory) / 1e6
        lines.append(
            f"{name:32}{ratios[0]:7.2f}{ratios[1]:7.2f}{ratios[2]:7.2f}{speed:12,.0f}{memory:7.0f} MB"
            f"{middle(start[name]):8.2f} s  {same}"
        )
    return "\n".join(lines)


def main() -> None:
    """`python run.py`: see the README of this folder."""
    parser = arguments("Compare ways to write one analysis.", rounds=5)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    parser.add_argument("--basket", type=int, default=50_000, help="events per basket")
    branches = parser.add_mutually_exclusive_group()
    branches.add_argument("--wide", dest="kind", action="store_const", const="wide", help="about 870 branches, not 80")
    branches.add_argument("--few", dest="kind", action="store_const", const="few", help="only those that are read")
    parser.add_argument("--known", action="store_true", help="also measure (b) with files whose metadata is known")
    parser.add_argument("--coffea", metavar="PYTHON", help="an interpreter that has coffea; else this one, if it has")
    parser.add_argument("--fasthep", metavar="PROGRAM", help="the fasthep command of its own environment")
    parser.add_argument("--modifiers", nargs="*", default=[], help="also measure (b) with each of these on every stage")
    chosen = parser.parse_args()
    make = {"kind": chosen.kind or "narrow", "basket": chosen.basket}
    files = generated(chosen.data, files=chosen.files, events=chosen.events, **make)
    tiny = generated(chosen.data, files=1, events=1, **make)
    coffea = chosen.coffea or (sys.executable if importlib.util.find_spec("coffea") else None)
    machine = Machine.now()
    with tempfile.TemporaryDirectory(prefix="cenote-known-") as memory:
        found = compare(ways(chosen, coffea), files, tiny, rounds=chosen.rounds, memory=Path(memory))
    print(table(*found, chosen.files * chosen.events))
    for name, asked in (("coffea", coffea), ("FAST-HEP", chosen.fasthep)):
        if not asked:
            print(f"{name} was not measured: give --{name.lower().replace('-', '')}")
    whole, start = found
    turns = whole | {f"{name}, start": one for name, one in start.items()}
    finish(machine, figures(*found), turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
