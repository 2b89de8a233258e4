"""Make conda prefixes of the small channel's packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from builders.conda_channel import small_channel, worker_wheels
from builders.machine_cache import made_once


def conda_prefix(folder: Path, *, environment: str = "default") -> Path:
    """A prefix in `folder`, with all packages of the small channel or with those of one environment of its lock."""
    prefix = folder / "prefix"
    lock = str(small_channel() / "pixi.lock")
    command = [sys.executable, "-m", "builders.install_prefix", lock, environment, str(prefix)]
    subprocess.run(command, check=True, cwd=Path(__file__).parent.parent, timeout=120)
    shutil.rmtree(folder / "packages")
    return prefix


def python_prefix() -> Path:
    """One with nothing but Python, for all tests that only read it."""
    made = made_once(f"python-prefix-{small_channel().name}", sys.base_prefix, _make_python_prefix)
    return made / "prefix"


def worker_prefix() -> Path:
    """One with all that workers need but Cenote itself, for all tests that only read it."""
    wheels = worker_wheels()
    made = made_once(f"worker-prefix-{small_channel().name}-{wheels.name}", sys.base_prefix, _make_worker_prefix)
    return made / "prefix"


def _make_worker_prefix(folder: Path) -> None:
    python = str(conda_prefix(folder) / "bin" / "python")
    install = ["pip", "install", "--quiet", "--offline", "--no-index", "--no-deps", "--compile-bytecode"]
    wheels = [str(wheel) for wheel in sorted(worker_wheels().glob("*.whl"))]
    subprocess.run([sys.executable, "-m", "uv", *install, "--python", python, *wheels], check=True, timeout=300)


def _make_python_prefix(folder: Path) -> None:
    conda_prefix(folder, environment="python")
