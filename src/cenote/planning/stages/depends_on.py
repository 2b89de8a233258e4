"""Find what stages depend on: files, products of others, the columns that are there for them."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from cenote.analysis.operations.interface import Operation
from cenote.common import errors, storage
from cenote.common.errors import CenoteError, Place, Problem
from cenote.common.text import did_you_mean
from cenote.language.plugins.resources import ResourceFile, describe
from cenote.language.systematics import is_twin
from cenote.language.workflow import Stage, Workflow


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


# Keep which columns are available after a stage, sharing memory along a chain of stages.


class Available(Mapping[str, str]):
    """Column → the stage that defined it, in the order they came to be. A change gives a new value.

    Thousands of stages that each add a column share one log, and differ in how much of it they see.
    """

    def __init__(self, log: dict[str, tuple[int, str]], limit: int, plain: Available | None = None) -> None:
        self._log = log
        self._limit = limit
        self._plain = plain

    @classmethod
    def of(cls, names: Iterable[str], definer: str) -> Available:
        """These columns, all from one place."""
        log = {name: (position, definer) for position, name in enumerate(dict.fromkeys(names))}
        return cls(log, len(log))

    def __getitem__(self, name: str) -> str:
        position, definer = self._log[name]
        if position >= self._limit:
            raise KeyError(name)
        return definer

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._log and self._log[name][0] < self._limit

    def __iter__(self) -> Iterator[str]:
        return islice(self._log, self._limit)

    def __len__(self) -> int:
        return self._limit

    def with_added(self, names: Collection[str], definer: str) -> Available:
        """With these columns added last (replaced ones move to the end)."""
        if not names:
            return self
        if self._limit == len(self._log) and not any(name in self._log for name in names):
            log = self._log
        else:
            log = {}
            for name in self:
                if name not in names:
                    log[name] = (len(log), self[name])
        for name in dict.fromkeys(names):
            log[name] = (len(log), definer)
        nominal = [name for name in names if not is_twin(name)]
        varied = self._plain is not None or len(nominal) < len(names)
        return Available(log, len(log), self.without_twins().with_added(nominal, definer) if varied else None)

    def only(self, names: Collection[str]) -> Available:
        """With these columns and no others."""
        kept = [name for name in self if name in names]
        plain = None if self._plain is None else self._plain.only(names)
        return Available({name: (at, self[name]) for at, name in enumerate(kept)}, len(kept), plain)

    def without_twins(self) -> Available:
        """Those that are no variation's, beside nominal ones."""
        return self if self._plain is None else self._plain

    def joined(self, other: Available) -> Available:
        """With the other's columns too; its definitions win."""
        merged = {**self, **other}
        varied = self._plain is not None or other._plain is not None
        plain = self.without_twins().joined(other.without_twins()) if varied else None
        return Available({n: (at, definer) for at, (n, definer) in enumerate(merged.items())}, len(merged), plain)
