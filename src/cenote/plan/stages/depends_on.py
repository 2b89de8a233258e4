"""Find what stages depend on besides data: files, whose content counts for the results, and products of others."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cenote import errors, storage
from cenote.errors import CenoteError, Place, Problem
from cenote.language.workflow import Stage, Workflow
from cenote.names import did_you_mean
from cenote.operations.interface import Operation
from cenote.plugins.resources import ResourceFile, describe


def files_of(stage: Stage, operation: Operation, workflow: Workflow) -> tuple[tuple[ResourceFile, ...], list[Problem]]:
    """The files as they are now, in the order of their names; and what is wrong with what the stage names.

    They are those under `depends_on`, and those that the operation knows of.
    """
    own, problems = _of_operation(stage, operation, workflow)
    found = {str(path) for path in own.values()}
    for number, written in enumerate(stage.depends_on):
        matches = _matches(written, workflow.folder) or _matches(written, Path.cwd())
        found.update(matches)
        if not matches:
            place = workflow.place(*stage.path, "depends_on", number)
            problems.append(_missing(stage, written, workflow.folder).at(place))
    try:
        return describe(Path(name) for name in sorted(found)), problems
    except OSError as problem:
        words = f"stage '{stage.id}' depends on {problem.filename}, which cannot be read: {problem.strerror}"
        return (), [*problems, Problem(errors.MISSING_FILE, words, place=workflow.place(*stage.path, "depends_on"))]


def products_lacking(
    stage: Stage, operation: Operation, makers: Mapping[str, str | None], workflow: Workflow
) -> list[Problem]:
    """Problems with the stages whose products the operation uses; `makers` has those before it that hand one on."""
    problems = []
    for name in operation.depends_on_products():
        place = _mentioned(stage, name, workflow)
        if name not in [other.id for other in workflow.stages]:
            words = f"stage '{stage.id}' uses the product of stage '{name}', which does not exist"
            there = [other.id for other in workflow.stages if other.id != stage.id]
            problems.append(errors.unknown_name(errors.UNKNOWN_STAGE, words, name, there, what="stages", place=place))
        elif name not in stage.needs:
            words = f"stage '{stage.id}' uses the product of stage '{name}' without needing it"
            hint = f"write `needs: [{', '.join((*stage.needs, name))}]`"
            problems.append(Problem(errors.BAD_VALUE, words, place=place, hint=hint))
        elif makers.get(name) is None:
            words = f"stage '{stage.id}' uses the product of stage '{name}', which hands none on"
            hint = "a stage of scope 'run' or 'dataset' with a product does"
            problems.append(Problem(errors.BAD_VALUE, words, place=place, hint=hint))
    return problems


def _of_operation(stage: Stage, operation: Operation, workflow: Workflow) -> tuple[dict[str, Path], list[Problem]]:
    """The files that the operation names, if it has nothing to say against them."""
    found: dict[str, Path] = {}
    problems: list[Problem] = []
    for written in operation.depends_on_files():
        path = Path(os.path.normpath(workflow.folder / written))
        if not storage.is_file(path) and storage.is_file(Path.cwd() / written):
            path = Path(os.path.normpath(Path.cwd() / written))
        found[written] = path
        if not storage.is_file(path):
            problems.append(_missing(stage, written, workflow.folder).at(_mentioned(stage, written, workflow)))
    if problems:
        return {}, problems
    try:
        operation.check_files(found)
    except CenoteError as wrong:
        place = _mentioned(stage, next(iter(found)), workflow)
        problems += [problem.at(place) for problem in wrong.problems]
    except OSError as wrong:
        words = f"stage '{stage.id}' depends on {wrong.filename}, which cannot be read: {wrong.strerror}"
        return {}, [Problem(errors.MISSING_FILE, words, place=workflow.place(*stage.path, "params"))]
    return found, problems


def _mentioned(stage: Stage, name: str, workflow: Workflow) -> Place | None:
    """Where the settings name a file or a stage."""
    params = (*stage.path, "params")
    return workflow.place(*next((path for path, text in texts_in(stage.params, params) if text == name), params))


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


def texts_in(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The texts in settings, each with its path: the places to point at."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            yield from texts_in(inner, (*path, position))
