"""Measure planning: many files, some stages, metadata unknown at first and known afterwards.

    python benchmarks/planning/run.py [--files 10000] [--stages 20]

The promise is that planning 10,000 files × 20 stages with known metadata takes under 5 seconds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

LIMIT = 5.0
"""Seconds that planning 10,000 files × 20 stages may take when their metadata is known."""


def main() -> None:
    """Make the files, plan twice, and say how long each part took."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="cenote-planning-") as name:
        folder = Path(name)
        os.environ["CENOTE_CACHE"] = str(folder / "cache")
        make_files(folder / "data", asked.files)
        flow = folder / "flow.yaml"
        flow.write_text(workflow(asked.stages, asked.datasets, asked.files), encoding="utf-8")
        _measure(flow, asked.files, asked.stages)


def _measure(flow: Path, files: int, stages: int) -> None:
    import cenote

    print(f"{files:,} files × {stages} stages on {os.cpu_count()} cores")
    first = _seconds(lambda: cenote.load(flow).plan())
    print(f"  metadata read from the files  {first:7.2f} s")
    known = min(_seconds(lambda: cenote.load(flow).plan()) for _ in range(3))
    print(f"  metadata known                {known:7.2f} s   {known / LIMIT:.2f} of the limit of {LIMIT:g} s")
    reading = min(_seconds(lambda: cenote.load(flow).check(read_files=False)) for _ in range(3))
    print(f"  of that, reading the workflow {reading:7.2f} s")


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def make_files(folder: Path, files: int) -> None:
    """Small files that are alike but for the UUID that ROOT gives each: none is taken for a copy of another."""
    import uproot

    from cenote.testing.muons import write_muons

    folder.mkdir()
    content = write_muons(folder / "part-00000.root", events=100).read_bytes()
    with uproot.open(folder / "part-00000.root") as file:
        own = file.file.uuid.bytes
    for number in range(1, files):
        (folder / f"part-{number:05}.root").write_bytes(content.replace(own, uuid.uuid4().bytes))


def workflow(stages: int, datasets: int, files: int) -> str:
    """Definitions, a change of pool in the middle, then histograms; the files are dealt out to the datasets."""
    half = stages // 2
    lines = ["data:", "  datasets:"]
    for number, start in enumerate(range(0, files, -(-files // datasets))):
        names = [f"data/part-{n:05}.root" for n in range(start, min(files, start + -(-files // datasets)))]
        lines += [f"    - name: d{number}", "      files:", *(f"        - {name}" for name in names)]
    lines += ["analysis:", "  stages:"]
    for number in range(half):
        source = "MET_pt" if number == 0 else f"x{number - 1}"
        variables = f"[{{name: x{number}, expr: '{source} + 1'}}]"
        pool = ", execution: {require: other}" if number >= half // 2 else ""
        lines.append(f"    - {{id: D{number}, op: hep.define, params: {{variables: {variables}}}{pool}}}")
    for number in range(stages - half):
        axis = f"{{name: x, type: regular, source: x{number % half}, bins: {{nbins: 10, low: 0, high: 100}}}}"
        lines.append(f"    - {{id: H{number}, op: hep.hist, params: {{axes: [{axis}]}}}}")
    lines += ["execution: {pools: {default: {}, other: {}}}", ""]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--stages", type=int, default=20)
    parser.add_argument("--datasets", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
