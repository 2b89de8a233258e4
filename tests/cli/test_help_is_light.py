"""Test that asking for help imports nothing heavy, so that it answers at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cenote.cli.main import COMMANDS

HEAVY = ("pydantic", "rich", "numpy", "msgspec", "awkward", "uproot", "matplotlib", "yaml", "pyarrow", "hist")


def heavy_after(arguments: list[str]) -> list[str]:
    """The heavy packages that a fresh interpreter has imported after this command."""
    script = (
        "import sys\n"
        "from cenote.cli.main import exit_code_of\n"
        f"code = exit_code_of({arguments!r})\n"
        f"print('\\n', 'heavy:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_the_command_alone_imports_nothing_heavy(arguments: list[str]) -> None:
    if not arguments:
        arguments = ["completion", "bash"]
    assert heavy_after(arguments) == []


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    assert heavy_after([command, "--help"]) == []


def test_nothing_but_a_page_needs_the_template_engine() -> None:
    script = "import sys, cenote.api, cenote.cli.commands.plan; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
