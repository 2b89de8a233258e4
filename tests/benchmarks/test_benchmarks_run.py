"""Every benchmark of the table runs, in a tiny size, and finds equal results; nothing is said of how long it takes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS: dict[str, Any] = yaml.safe_load((BENCHMARKS / "rows.yaml").read_text(encoding="utf-8"))
TINY = {
    "throughput/run.py": "--files 2 --events 200 --basket 100 --few --known",
    "adl/run.py": "--files 1 --events 2000 --alone q3",
    "reading/run.py": "--files 1 --events 200 --basket 100 --codecs lz4",
    "routing/run.py": "--partitions 4 --scale 0.01 --megabytes 0",
    "systematics/run.py": "--files 1 --events 500",
    "joining/run.py": "--workers 1 1 1",
    "cliffs/run.py": "--cases files --scale 0.002",
}
"""The scripts of rows.yaml, with sizes of a test."""
TRIED = list(TINY) if os.environ.get("CENOTE_DEEP_TESTS") else ["adl/run.py", "routing/run.py"]
"""Those that the usual run tries: the others are made alike, and start dozens of processes."""
LEFT_OUT = {"Q1", "Q4", "Q5", "Q6", "Q7", "Q8", "10 MB", "50 MB", "bins", "variations", "stages", "events"}
LEFT_OUT |= {"zstd", "zlib", "lzma"}
"""Of each script, parts of the same make."""
NEEDS_MORE = "loop"
"""A figure that is a difference to start-up: it says nothing of a tiny size, and is not shown."""


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def measure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure", BENCHMARKS / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", TRIED)
def test_a_benchmark_runs_and_has_the_figures_of_its_rows(script: str, data: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    options = [*TINY[script].split(), "--rounds", "1", "--data", str(data), "--json", str(result)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    assert found["wrong"] == []
    assert {name for name in figures_of(script) if not left_out(name)} - set(found["figures"]) == set()


def figures_of(script: str) -> set[str]:
    names = {name for name, command in ROWS["benchmarks"].items() if command.split()[0] == script}
    rows = [row for row in ROWS["rows"] if row["benchmark"] in names]
    return {figure for row in rows for figure in (*row["hand_written"], *row["now"])}


def left_out(figure: str) -> bool:
    return figure.split(": ")[0] in LEFT_OUT or figure.split(": ")[-1] == NEEDS_MORE


def test_every_benchmark_of_the_table_is_tried_here() -> None:
    assert {command.split()[0] for command in ROWS["benchmarks"].values()} == set(TINY)
    assert {row["benchmark"] for row in ROWS["rows"]} == set(ROWS["benchmarks"])


def test_the_table_of_the_readme_shows_what_was_kept() -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    module = measure()
    assert module.page(text, ROWS, module.kept()) == text


def test_the_readme_names_every_benchmark() -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    folders = {file.parent.name for file in BENCHMARKS.glob("*/run.py")}
    assert [folder for folder in sorted(folders) if f"({folder}/" not in text] == []


def test_a_profile_names_what_computes() -> None:
    program = "import time\ndef burn():\n    while time.process_time() < 0.5: sum(range(1000))\nburn()"
    command = [sys.executable, str(BENCHMARKS / "cpu_profile" / "run.py"), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "<string>:burn" in done.stdout
