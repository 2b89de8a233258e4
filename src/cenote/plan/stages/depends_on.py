"""Find the files that stages name under `depends_on`: their content counts for the results."""

from __future__ import annotations

import glob
import os.path
from pathlib import Path

from cenote import errors, storage
from cenote.errors import Problem
from cenote.language.workflow import Stage, Workflow
from cenote.names import did_you_mean
from cenote.plugins.resources import ResourceFile, describe


def files_of(stage: Stage, workflow: Workflow) -> tuple[tuple[ResourceFile, ...], list[Problem]]:
    """The files as they are now, in the order of their names; and what is wrong with what the stage names."""
    found: set[str] = set()
    problems: list[Problem] = []
    for number, written in enumerate(stage.depends_on):
        matches = _matches(written, workflow.folder)
        found.update(matches)
        if not matches:
            place = workflow.place(*stage.path, "depends_on", number)
            problems.append(_missing(stage, written, workflow.folder).at(place))
    try:
        return describe(Path(name) for name in sorted(found)), problems
    except OSError as problem:
        words = f"stage '{stage.id}' depends on {problem.filename}, which cannot be read: {problem.strerror}"
        return (), [*problems, Problem(errors.MISSING_FILE, words, place=workflow.place(*stage.path, "depends_on"))]


def _matches(written: str, folder: Path) -> list[str]:
    """Files by name or pattern; a folder stands for all files in it."""
    name = os.path.expandvars(written)
    path = folder / storage.expanded(name)
    named = glob.glob(storage.pattern(folder, name), recursive=True) if glob.has_magic(written) else [str(path)]  # noqa: PTH207  # Path.glob takes no absolute pattern
    inside = [str(file) for name in named if storage.is_folder(Path(name)) for file in Path(name).rglob("*")]
    return [os.path.normpath(name) for name in (*named, *inside) if storage.is_file(Path(name))]


def _missing(stage: Stage, written: str, folder: Path) -> Problem:
    near = folder / written
    beside = [other.name for other in near.parent.glob("*")] if storage.is_folder(near.parent) else []
    words = "matches no file" if glob.has_magic(written) else "is not there"
    return Problem(
        errors.MISSING_FILE,
        f"stage '{stage.id}' depends on '{written}', which {words}",
        details=(f"looked in {folder}",),
        hint=did_you_mean(near.name, beside),
    )
