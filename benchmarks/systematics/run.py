"""Measure what nine variations of an analysis cost: in one pass, against the nominal analysis and nine workflows more.

python benchmarks/systematics/run.py [--files 8] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Contender, Machine, Turns, arguments, finish, flow_command, generated, middle, ratio, take_turns

HERE = Path(__file__).parent
FLOW: dict[str, Any] = yaml.safe_load((HERE / "flow.yaml").read_text())
VARIATIONS: list[dict[str, Any]] = FLOW["systematics"]["variations"]
HISTOGRAMS = tuple(stage["id"] for stage in FLOW["analysis"]["stages"] if stage["op"] == "hep.hist")
NOMINAL, TOGETHER, APART = "cenote, nominal", "cenote, nine variations", "cenote, ten workflows"
LOOP = " without start-up"

Flow = dict[str, Any]
Rows = Mapping[str, Any]
"""`stage: variation` → contents of bins."""


def without_variations(files: Sequence[Path]) -> Flow:
    """The nominal analysis."""
    flow = {key: copy.deepcopy(value) for key, value in FLOW.items() if key != "systematics"}
    flow["data"]["datasets"][0]["files"] = [str(file) for file in files]
    return flow


def by_hand(variation: Mapping[str, Any], files: Sequence[Path]) -> Flow:
    """A workflow with one variation applied, as somebody would write it who has no `systematics`."""
    flow = without_variations(files)
    for stage in flow["analysis"]["stages"]:
        if stage["id"] == variation.get("anchor"):
            stage["params"] |= variation["patch"]
        if "weight" in variation and stage["op"] == "hep.hist":
            stage["params"]["weight_expr"] = f"({stage['params']['weight_expr']}) * ({variation['weight']['multiply']})"
    return flow


def filled(folder: Path, variation: str | None) -> Iterator[tuple[str, Any]]:
    """Every row of every histogram; `variation` says what the workflow was, None for all of them."""
    for stage in HISTOGRAMS:
        content = json.loads((folder / "products" / f"{stage}.json").read_text())
        values, labels = content["storage"], [axis for axis in content["axes"] if axis["type"] == "category_str"]
        if variation is not None:
            yield f"{stage}: {variation}", [values[key] for key in ("values", "variances")]
            continue
        names = labels[0]["categories"] if labels else ["nominal"]
        for place, name in enumerate(names):
            yield (
                f"{stage}: {name}",
                [[bins[place] if labels else bins for bins in values[key]] for key in ("values", "variances")],
            )


def together(name: str, flow: Flow, cenote: str) -> Contender:
    """One workflow."""
    return Contender(
        name,
        lambda folder: flow_command(flow, folder, "--workers", "1", cenote=cenote),
        lambda folder: dict(filled(folder / "out", None)),
        like=TOGETHER,
    )


def apart(name: str, files: Sequence[Path], cenote: str) -> Contender:
    """The nominal workflow and one for each variation, one after the other."""
    flows = {"nominal": without_variations(files), **{one["name"]: by_hand(one, files) for one in VARIATIONS}}

    def command(folder: Path) -> list[str]:
        commands = []
        for variation, flow in flows.items():
            own = folder / variation
            own.mkdir()
            commands.append(flow_command(flow, own, "--workers", "1", cenote=cenote))
        (folder / "commands.json").write_text(json.dumps(commands))
        program = "import json, subprocess, sys; [subprocess.run(c, check=True) for c in json.load(open(sys.argv[1]))]"
        return [sys.executable, "-c", program, str(folder / "commands.json")]

    def found(folder: Path) -> Rows:
        return {key: row for variation in flows for key, row in filled(folder / variation / "out", variation)}

    return Contender(name, command, found, like=TOGETHER)


def differing(expected: Rows, found: Rows) -> str:
    """The rows that both have and that are not equal to the last bit."""
    unlike = [key for key in found if key in expected and found[key] != expected[key]]
    return f"other contents: {', '.join(unlike)}" if unlike else ""


def figures(turns: Mapping[str, Turns]) -> dict[str, float | str]:
    """CPU as ratios to the nominal analysis, of the whole process and of the loop."""
    whole = {"variations": TOGETHER, "workflows": APART}
    found: dict[str, float | str] = {"nominal": f"{middle(turns[NOMINAL]):.2f} s"}
    for title, name in whole.items():
        if turns[name].cpu:
            found[f"{title}: CPU"] = ratio(turns[name], turns[NOMINAL])
    start = {name: middle(turns[name + LOOP]) for name in (NOMINAL, TOGETHER)}
    found["variations: loop"] = (middle(turns[TOGETHER]) - start[TOGETHER]) / (middle(turns[NOMINAL]) - start[NOMINAL])
    return found


def main() -> None:
    """Run them in turns and print the ratios."""
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    chosen = parser.parse_args()
    files = generated(chosen.data, files=chosen.files, events=chosen.events)
    tiny = generated(chosen.data, files=1, events=1)
    contenders: list[Contender] = []
    for which, what in ((files, ""), (tiny, LOOP)):
        varied = {**without_variations(which), "systematics": FLOW["systematics"]}
        contenders += [
            _own(together(TOGETHER + what, varied, chosen.cenote), what),
            _own(together(NOMINAL + what, without_variations(which), chosen.cenote), what),
        ]
    contenders.append(apart(APART, files, chosen.cenote))
    machine = Machine.now()
    turns = take_turns(contenders, rounds=chosen.rounds, first=contenders[:2], difference=differing)
    found = figures(turns)
    print(f"{chosen.files * chosen.events:,} events, one worker; CPU × the nominal analysis ({found['nominal']})")
    for name in ("variations: CPU", "variations: loop", "workflows: CPU"):
        print(f"{name:20}{found.get(name, float('nan')):.2f}")
    finish(machine, found, turns, json_file=chosen.json)


def _own(contender: Contender, what: str) -> Contender:
    """Runs over other files are compared with each other."""
    return (
        contender if not what else Contender(contender.name, contender.command, contender.found, like=TOGETHER + what)
    )


if __name__ == "__main__":
    main()
