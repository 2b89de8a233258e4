"""Unpack archives as a node does it, without the rest of what happens there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cenote.execution.packing.archive import Compression


def unpack(file: Path, folder: Path, compression: Compression = "zstd") -> Path:
    """With the programs of a node."""
    folder.mkdir(parents=True)
    stream = subprocess.run([compression, "-dc", str(file)], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-xof", "-", "-C", str(folder)], input=stream, check=True)
    return folder


def move_to(final: Path, unpacked: Path) -> subprocess.CompletedProcess[str]:
    """Relocate an unpacked environment, and put it there if that went well."""
    command = [str(unpacked / "bin" / "python"), "-I", "-S", "-B", ".cenote/relocate.py", str(final)]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        final.parent.mkdir(parents=True, exist_ok=True)
        unpacked.rename(final)
    return done
