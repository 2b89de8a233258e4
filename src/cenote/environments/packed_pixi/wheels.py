"""Take out of installed wheels where and when they were installed: the same lock gives the same files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from cenote.packing.prefixes.prefix import PLACEHOLDER

_ABOUT_HERE = ("direct_url.json", "uv_cache.json")
"""Which file it was installed from, and when that was written."""


def forget_where_installed(folder: Path) -> None:
    """Of all wheels that uv installed into a prefix."""
    (folder / ".lock").unlink(missing_ok=True)
    for record in sorted(folder.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        if (record.parent / "INSTALLER").exists() and (record.parent / "INSTALLER").read_text().strip() == "uv":
            for name in _ABOUT_HERE:
                (record.parent / name).unlink(missing_ok=True)
            _replace(record, "".join(_lines(record, folder)))


def _lines(record: Path, folder: Path) -> Iterator[str]:
    """Of a RECORD: without what is gone, and without hashes of scripts, which change wherever they are unpacked."""
    programs = folder / "bin"
    for path, *facts in csv.reader(record.read_text().splitlines()):
        located = Path(record.parent.parent, path).resolve()
        if path.rpartition("/")[2] in _ABOUT_HERE and located.parent == record.parent:
            continue
        if located.parent == programs.resolve():
            _point_to_placeholder(located, programs)
            facts = ["", ""]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([path, *facts])
        yield line.getvalue()


def _point_to_placeholder(script: Path, programs: Path) -> None:
    """In the form for long paths, however long the path of this folder is."""
    first, _, rest = script.read_bytes().partition(b"\n")
    here = f"{programs}/".encode()
    if first.startswith(b"#!" + here):
        python = first.removeprefix(b"#!" + here)
    elif first == b"#!/bin/sh" and rest.startswith(b"'''exec' ") and here in rest.partition(b"\n")[0]:
        command, _, rest = rest.partition(b"\n")
        python = command.partition(here)[2].split(b'"')[0].split(b"'")[0].split(b" ")[0]
        _, _, rest = rest.partition(b"\n")  # the line that closes the quotes
    else:
        return
    start = b"#!/bin/sh\n'''exec' \"%s/bin/%s\" \"$0\" \"$@\" #'''\n" % (PLACEHOLDER.encode(), python)
    mode = script.stat().st_mode
    _replace(script, start + rest)
    script.chmod(mode)


def _replace(file: Path, content: bytes | str) -> None:
    """Never by writing into it: the file may be one with that of a cache."""
    file.unlink()
    file.write_bytes(content.encode() if isinstance(content, str) else content)
