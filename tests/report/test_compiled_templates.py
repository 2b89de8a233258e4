"""Templates are compiled once for all processes, as Python's modules are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
from jinja2 import Environment
from cenote.report.render import render_part
compiled = []
generate = Environment._generate
Environment._generate = lambda self, *values, **named: compiled.append(values[1]) or generate(self, *values, **named)
values = {"title": "t", "words": "w", "share": 0.5, "colour": "#fff", "waiting": ()}
shown = render_part("notebook.html.j2", "progress", **values)
print(len(compiled), "w" in shown)
"""


def rendered(pycache: Path, **variables: str) -> str:
    """How many templates a fresh process compiles for a page, and whether it is right."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    surroundings = {**kept, "PYTHONPYCACHEPREFIX": str(pycache), **variables}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=surroundings)
    return done.stdout.strip()


def test_the_second_process_compiles_none(tmp_path: Path) -> None:
    assert rendered(tmp_path) == "1 True"
    assert rendered(tmp_path) == "0 True"


@pytest.mark.parametrize("damage", [b"", b"j2", b"something else"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    rendered(tmp_path)
    (kept,) = tmp_path.rglob("notebook.html.j2.*jinja*")
    kept.write_bytes(damage)
    assert rendered(tmp_path) == "1 True"
    assert rendered(tmp_path) == "0 True"


def test_nothing_is_kept_where_python_keeps_nothing(tmp_path: Path) -> None:
    assert rendered(tmp_path, PYTHONDONTWRITEBYTECODE="1") == "1 True"
    assert not [*tmp_path.rglob("*jinja*")]
