"""Run the benchmarks of the table in README.md, all or some, and print its rows.

python benchmarks/measure.py                  # all of them: an hour
python benchmarks/measure.py narrow wide      # some, by the names in rows.yaml
python benchmarks/measure.py --keep start     # and keep the measurements: measured/start.json, and the table
python benchmarks/measure.py --table          # measure nothing; write the table anew
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
README = HERE / "README.md"
MEASURED = HERE / "measured"
BEGIN, END = "<!-- table: written by measure.py -->", "<!-- end of the table -->"
HEAD = ("", "hand-written", "530d141", "now", "goal", "command", "measured", "what stands in the way")

Measurements = Mapping[str, Any]
"""Benchmark → what its `--json` wrote."""


def row_of(row: Mapping[str, Any], commands: Mapping[str, str], measured: Measurements) -> str:
    """One line of the table."""
    found = measured.get(row["benchmark"], {})
    cells = [
        row["what"],
        figures(row["hand_written"], found),
        row["began"],
        figures(row["now"], found),
        row["goal"],
        f"`{commands[row['benchmark']]}`",
        when(found),
        row["in_the_way"],
    ]
    return f"| {' | '.join(cells)} |"


def figures(names: Sequence[str], found: Mapping[str, Any]) -> str:
    """`0.51 / 0.97`; `–` for what was not measured."""
    values = [found.get("figures", {}).get(name, "–") for name in names]
    return " / ".join(value if isinstance(value, str) else f"{value:.2f}" for value in values)


def when(found: Mapping[str, Any]) -> str:
    """The day, how busy the machine was, and the version."""
    if not found:
        return "–"
    machine = found["machine"]
    return f"{machine['date']}, load {machine['load']} on {machine['cpus']} CPUs, {machine['revision']}"


def table(rows: Sequence[Mapping[str, Any]], commands: Mapping[str, str], measured: Measurements) -> str:
    """With its head."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    return "\n".join([*lines, *(row_of(row, commands, measured) for row in rows)])


def page(text: str, content: Mapping[str, Any], measured: Measurements) -> str:
    """The README with its table written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(content['rows'], content['benchmarks'], measured)}\n\n{END}{after}"


def kept() -> Measurements:
    """The last measurements that were kept."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(MEASURED.glob("*.json"))}


def measure(name: str, command: str, *, into: Path, options: Sequence[str]) -> bool:
    """Run one benchmark; whether it came to its end with equal results."""
    print(f"== {name}: {command}", flush=True)
    script, *words = command.split()
    file = into / f"{name}.json"
    done = subprocess.run(
        [sys.executable, str(HERE / script), *words, *options, "--json", str(file)],
        check=False,
    )
    return done.returncode == 0


def main() -> None:
    """Measure, print, and keep what is to be kept."""
    content = yaml.safe_load((HERE / "rows.yaml").read_text(encoding="utf-8"))
    commands: dict[str, str] = content["benchmarks"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(commands))
    parser.add_argument("--rounds", type=int, help="other than what each benchmark has")
    parser.add_argument("--cenote", metavar="PROGRAM", help="another cenote than this one")
    parser.add_argument("--keep", action="store_true", help="keep the measurements, and write the table of README.md")
    parser.add_argument("--table", action="store_true", help="only write the table of README.md")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(commands):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(commands)}")
    names = [] if chosen.table else chosen.names or list(commands)
    options = [*(["--rounds", str(chosen.rounds)] if chosen.rounds else [])]
    options += ["--cenote", chosen.cenote] if chosen.cenote else []
    with tempfile.TemporaryDirectory() as folder:
        into = MEASURED if chosen.keep else Path(folder)
        into.mkdir(exist_ok=True)
        failed = [name for name in names if not measure(name, commands[name], into=into, options=options)]
        found = {name: json.loads(file.read_text()) for name in names if (file := into / f"{name}.json").exists()}
    if names:
        print(table([row for row in content["rows"] if row["benchmark"] in names], commands, found))
    if chosen.keep or chosen.table:
        README.write_text(page(README.read_text(encoding="utf-8"), content, kept()), encoding="utf-8")
    if failed:
        sys.exit(f"failed, or found something else: {', '.join(failed)}")


if __name__ == "__main__":
    main()
