"""Keep what the run before published in a folder, so that the next run there can be compared with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cenote import errors
from cenote.plan.outputs.names import PRODUCTS
from cenote.runs.folder import RunFolder
from cenote.runs.read_records import read_if_whole
from cenote.runs.summary import Summary

MOST_FILES = 5000
"""With more, a run would notice: nothing is kept then."""


def keep_before(run: RunFolder) -> None:
    """Keep the records and products of the run that succeeded here last; its skims are not among them.

    Files are linked, which takes neither time nor space while they stay the same: whoever writes them anew puts
    another file in their place. What cannot be kept is no error.
    """
    summary = read_if_whole(run.summary, Summary)
    if summary is None or summary.status != "succeeded":
        return
    files = list(_published(run, summary))
    with suppress(OSError):
        if run.before.is_symlink():
            run.before.unlink()
        shutil.rmtree(run.before, ignore_errors=True)
        if len(files) <= MOST_FILES:
            for file in files:
                _link(file, run.before / file.relative_to(run.path))


def run_before(run: RunFolder) -> Path:
    """The folder with what is kept. Raises `no-run` where nothing is."""
    if not RunFolder(run.before).summary.is_file():
        raise errors.error(
            errors.NO_RUN,
            f"{run.path} holds nothing of a run before its last one: there is nothing to compare it with",
            hint="run again in this folder after a change, or name the folders of two runs",
        )
    return run.before


def _published(run: RunFolder, summary: Summary) -> Iterator[Path]:
    """Of what the summary names, files in the folder of products: others may have written it."""
    for product in summary.products:
        for file in map(Path, product.files):
            if file.parts[:1] == (PRODUCTS,) and ".." not in file.parts and (run.path / file).is_file():
                yield run.path / file
    # The summary comes last: where it is, everything is.
    yield from (file for file in (run.plan, run.provenance, run.ingredients, run.summary) if file.is_file())


def _link(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except FileNotFoundError:
        return  # somebody took it away
    except OSError:  # a disk without links
        shutil.copyfile(file, target)
