"""Make virtual environments without network."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

from builders.machine_cache import made_once


def bare_venv() -> Path:
    """One with nothing but Python, for all tests that only read it."""
    return made_once(f"bare-venv-{sys.version_info.minor}", sys.base_prefix, make_venv) / "venv"


def make_venv(folder: Path) -> None:
    """In `venv` of this folder, of the Python that the one of the tests was made with."""
    venv.EnvBuilder(symlinks=True).create(folder / "venv")
