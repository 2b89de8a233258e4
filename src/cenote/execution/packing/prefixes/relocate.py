"""Put the path of the folder that an archive was unpacked to in place of the placeholder in its files.

This file travels in archives and is run there by the Python that was unpacked: it needs nothing but the standard
library. `bin/python -I -S .cenote/relocate.py FOLDER`: the tree that it lies in will be at FOLDER.
"""

from __future__ import annotations

import json
import os
import py_compile
import re
import sys
from collections.abc import Sequence
from pathlib import Path

LONGEST_SHEBANG = 127
"""Bytes of a first line that every kernel reads: before Linux 5.1 what is beyond was cut off, without a word."""
LONG_PATH = 88
"""The exit code that says so, as `start_failures` has it."""


def is_binary(content: bytes) -> bool:
    """Whether paths in there are C strings, whose place cannot grow."""
    return b"\0" in content


def relocated(content: bytes, placeholder: bytes, folder: bytes) -> bytes:
    """With the folder in place of the placeholder; what is binary keeps its length."""
    if not is_binary(content):
        return _with_short_shebang(content.replace(placeholder, folder), folder)

    def replaced(found: re.Match[bytes]) -> bytes:
        text: bytes = found.group()
        return text.replace(placeholder, folder).ljust(len(text), b"\0")

    return re.sub(re.escape(placeholder) + b"[^\\0]*", replaced, content)


def _with_short_shebang(content: bytes, folder: bytes) -> bytes:
    """A script whose interpreter cannot be named by its path is started by the first one on the PATH."""
    line, newline, rest = content.partition(b"\n")
    if not line.startswith(b"#!") or folder not in line or (len(line) <= LONGEST_SHEBANG and b" " not in folder):
        return content
    program, *arguments = line[2:].replace(folder, b"").split()
    name = program.rpartition(b"/")[2]
    return b" ".join([b"#!/usr/bin/env", *([b"-S"] if arguments else []), name, *arguments]) + newline + rest


def relocate(root: Path, names: Sequence[str], placeholder: str, folder: str) -> None:
    """Write one file anew, under all its names: a running program cannot be written to, only replaced."""
    first = root / names[0]
    content, mode = first.read_bytes(), first.stat().st_mode
    new = root / f"{names[0]}.new"
    new.write_bytes(relocated(content, placeholder.encode(), os.fsencode(folder)))
    new.chmod(mode)
    new.replace(first)
    for name in names[1:]:
        new.hardlink_to(first)
        new.replace(root / name)  # does nothing, and leaves `new`, where both are one file already
        new.unlink(missing_ok=True)
    for name in names:
        if name.endswith(".py"):  # its bytecode would hold the placeholder
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(root / name), dfile=f"{folder}/{name}", invalidation_mode=unchecked, quiet=2)


def main(folder: str) -> int:
    """The tree that this file lies in will be at this folder."""
    root = Path(__file__).resolve().parent.parent
    written = json.loads(Path(__file__).with_name("relocations.json").read_text(encoding="utf-8"))
    placeholder = written["placeholder"]
    if len(os.fsencode(folder)) > len(placeholder):
        sys.stderr.write(f"{folder} has {len(folder)} characters, more than the {len(placeholder)} there is room for\n")
        return LONG_PATH
    for names in written["files"]:
        relocate(root, names, placeholder, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
