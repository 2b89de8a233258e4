"""Measure how long it takes to read compressed branches: Cenote's source against uproot, for every codec.

python benchmarks/reading/run.py [--codecs zstd lz4 zlib lzma] [--files 2] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Contender, Machine, Used, arguments, finish, generated, middle, ratio, take_turns

HERE = Path(__file__).parent
CODECS = ("zstd", "lz4", "zlib", "lzma")


def reader(way: str, codec: str, files: list[Path], python: str) -> Contender:
    """A process that reads the files of one codec."""

    def result(folder: Path) -> Any:
        return json.loads((folder / "result.json").read_text())

    def reading(folder: Path, _: Used) -> dict[str, float]:
        return {"reading": result(folder)["reading"]}

    words = [python, str(HERE / "read.py"), way]
    return Contender(
        f"{way}, {codec}",
        lambda folder: [*words, str(folder / "result.json"), *map(str, files)],
        lambda folder: result(folder)["digests"],
        like=f"uproot, {codec}",
        of_run=reading,
    )


def main() -> None:
    """Read in turns and print the ratios."""
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    parser.add_argument("--basket", type=int, default=50_000, help="events per basket")
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    chosen = parser.parse_args()
    pythons = {"uproot": sys.executable, "cenote": str(Path(chosen.cenote).with_name("python"))}
    contenders = []
    for codec in chosen.codecs:
        make = {"files": chosen.files, "events": chosen.events, "basket": chosen.basket, "codec": codec}
        first = generated(chosen.data, files=1, events=1, codec=codec)
        files = [*first, *generated(chosen.data, **make)]
        contenders += [reader(way, codec, files, python) for way, python in pythons.items()]
    machine = Machine.now()
    turns = take_turns(contenders, rounds=chosen.rounds, first=contenders[:2])
    figures: dict[str, float | str] = {}
    print(f"{chosen.files * chosen.events:,} events; CPU of reading × uproot")
    for codec in chosen.codecs:
        ours, floor = turns[f"cenote, {codec}"], turns[f"uproot, {codec}"]
        if not (ours.cpu and floor.cpu):
            print(f"{codec:6} not measured: {ours.problem or floor.problem}")
            continue
        figures[f"{codec}: uproot"] = f"{middle(floor, 'reading'):.2f} s"
        figures[f"{codec}: CPU"] = ratio(ours, floor, "reading")
        same = f"DIFFERENT: {ours.unlike}" if ours.unlike else "equal, bit for bit"
        print(f"{codec:6}{figures[f'{codec}: CPU']:7.2f}   uproot {figures[f'{codec}: uproot']}   {same}")
    finish(machine, figures, turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
