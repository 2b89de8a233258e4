"""Show where the CPU time of a command goes, in all its Python processes.

    python benchmarks/cpu_profile/run.py [--top 30] cenote run flow.yaml --out out --workers 1

Functions are listed with the CPU seconds spent in them and in what they call. Samples are taken in the main thread;
what extension modules do counts for the line that called them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOTS = ("site-packages/", "/src/", f"/python{sys.version_info.major}.{sys.version_info.minor}/")
IMPORTING = "_find_and_load"


def main() -> None:
    """Run the command and print the profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=30, help="functions to list for each process")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cenote-profile-") as folder:
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {**os.environ, "CPU_PROFILE": folder, "PYTHONPATH": path}
        done = subprocess.run(chosen.command, env=variables, check=False)
        found = [json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).glob("*.json")]
    for process in sorted(found, key=lambda process: -float(process["cpu"])):
        show(process, chosen.top)
    sys.exit(done.returncode)


def show(process: dict[str, Any], top: int) -> None:
    """One process: its imports, and its functions with those they call."""
    samples = sum(times for _, times in process["stacks"])
    if not samples:
        return
    seconds = process["cpu"] / samples
    within: Counter[str] = Counter()
    importing = 0
    for stack, times in process["stacks"]:
        names = {_short(name) for name in stack}
        importing += times * any(name.endswith(IMPORTING) for name in names)
        within.update({name: times for name in names if "importlib" not in name})
    print(f"\n{process['cpu']:.2f} s CPU, {importing * seconds:.2f} s of it imports: {' '.join(process['command'])}")
    for name, times in within.most_common(top):
        print(f"{times * seconds:8.2f}  {name}")


def _short(name: str) -> str:
    for root in ROOTS:
        _, found, rest = name.rpartition(root)
        if found:
            return rest
    return name


if __name__ == "__main__":
    main()
