"""Compile Python files of a prefix for the archive: run by the Python of the prefix, with the standard library alone.

`python compile_sources.py PREFIX TARGET PATH…`, and the names of the files on its input, ended by NULs. Bytecode is
written below TARGET; what holds one of the paths has none, because it is changed on the node.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path


def main(prefix: str, target: str, *paths: str) -> None:
    """Compile what the input names; what is no Python of this version is left out."""
    searched = [os.fsencode(path) for path in paths]
    for name in os.fsdecode(sys.stdin.buffer.read()).split("\0"):
        source = Path(prefix, name)
        if source.is_file() and not any(path in source.read_bytes() for path in searched):
            py_compile.compile(
                str(source),
                cfile=importlib.util.cache_from_source(str(Path(target, name))),
                dfile=name,  # the import system corrects it when it loads the file
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                quiet=2,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
