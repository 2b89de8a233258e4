"""Make prefixes in which there is next to nothing, so that packing them takes no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def small_conda_prefix(folder: Path, *, version: str = "3.12.1") -> Path:
    """With records of conda, and a `bin/python` that is the one of the tests."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "conda-meta").mkdir()
    record = {"name": "python", "version": version, "build": "0", "subdir": "linux-64", "url": "https://x/t/SECRET/x"}
    (folder / "conda-meta" / f"python-{version}-0.json").write_text(json.dumps(record))
    (folder / "lib" / "python3.12").mkdir(parents=True)
    (folder / "lib" / "python3.12" / "module.py").write_text("answer = 42\n")
    (folder / "share").mkdir()
    (folder / "share" / "text").write_text(f"{folder}/share\n")
    return folder
