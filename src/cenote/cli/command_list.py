"""List the commands from their files, so that `cenote --help` need not import any of them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "commands"
USUAL = (
    *("init", "check", "plan", "credentials", "probe", "simulate", "run", "submit", "status", "why", "cancel", "clean"),
    *("report", "diff", "ops", "env", "store", "site", "schema", "demo", "completion"),
)
"""In the order in which people meet them; any others follow by name."""


def _found() -> dict[str, str]:
    files = {path.stem: path for path in sorted(FOLDER.glob("[!_]*.py"))}
    names = dict.fromkeys((*(name for name in USUAL if name in files), *files))
    return {name: _first_line(files[name]) for name in names}


def _first_line(path: Path) -> str:
    """Of the docstring."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')


COMMANDS = _found()
"""Command → its line in the help, which is the first line of its file `commands/NAME.py`."""
