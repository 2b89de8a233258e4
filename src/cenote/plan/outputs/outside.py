"""Refuse results that would lie outside the folder of their run, or under names that no file can have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from cenote import errors, storage
from cenote.errors import Place, Problem
from cenote.language.workflow import Workflow
from cenote.plan.outputs.names import PLOTS, PRODUCTS, REPORTS, plot_stem, report_path, skim_path, whole_path
from cenote.plan.plan import Plan

SETTING = "execution.write_outside"
_LONGEST_NAME = 200
"""Bytes of one part of a path. File systems take 255, of which endings and the names of unfinished files need some."""
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


def refused_name(
    folder: str, name: str, *, allowed: Collection[str], place: Place | None, written: str | None = None
) -> Problem | None:
    """What is wrong with putting a result there; `written` is the name as the file has it."""
    path, shown = PurePosixPath(name), errors.printable(repr(name if written is None else written))
    if written == "" or not path.name or _NOT_IN_NAMES.search(name):
        return Problem(errors.BAD_VALUE, f"{shown} cannot name a file", place=place, hint="for example muons/selected")
    longest = max(path.parts, key=lambda part: len(part.encode()))
    if len(longest.encode()) > _LONGEST_NAME:
        words = f"'{longest[:20]}…' is too long for the name of a file: at most {_LONGEST_NAME} bytes"
        return Problem(errors.BAD_VALUE, words, place=place, hint="shorten it")
    if path.is_absolute() and ".." not in path.parts:
        if any(_leads_into(Path(path), Path(one)) for one in allowed):
            return None
        hint = f"write a path below it, or allow the folder: `{SETTING}: [{PurePosixPath(written or name).parent}]`"
    elif ".." not in path.parts:
        return None
    else:
        hint = "write a path without `..`; folders such as sr/met are made as needed"
    words = f"{shown} is outside of the folder `{folder}/` of the run"
    return Problem(errors.BAD_VALUE, words, place=place, hint=hint)


def links_outside(plan: Plan, run: Path) -> Iterator[Problem]:
    """Results that links in the folder of the run, or in an allowed one, would lead elsewhere."""
    workflow = plan.workflow
    within = [storage.resolved(root) for root in (run, *map(Path, workflow.execution.write_outside))]
    places = {run / folder: None for folder in (PRODUCTS, PLOTS, REPORTS)}
    astray: set[Path] = set()
    for folder, place in (*places.items(), *(((run / path).parent, place) for place, path in _paths(plan, workflow))):
        target = storage.resolved(folder)
        if not any(target.is_relative_to(root) for root in within) and astray.isdisjoint((folder, *folder.parents)):
            astray.add(folder)
            words = f"a link leads from {folder} to {target}, outside of the run's folder"
            hint = f"remove the link, or allow its target: `{SETTING}: [{target}]`"
            yield Problem(errors.BAD_PATH, words, place=place, hint=hint)


def _paths(plan: Plan, workflow: Workflow) -> Iterator[tuple[Place | None, Path]]:
    """Every result that is named by the file, below the folder of the run."""
    for stage in workflow.stages:
        for write in stage.write:
            for dataset in plan.datasets:
                part = None if write.per_dataset else "00000"
                name = skim_path(write.path_template, dataset=dataset.own_name, part=part, suffix="")
                name = whole_path(write.path_template, dataset=None, suffix="") if write.per_run else name
                yield workflow.place(*write.path, "path"), Path(PRODUCTS) / name
    for report in workflow.reports:
        for number, output in enumerate(report.outputs):
            yield workflow.place(*report.path, "outputs", number, "path"), Path(REPORTS) / report_path(output.path)
    for product in plan.products:
        for number, render in enumerate(product.renders):
            yield workflow.place(*render.path, "out"), Path(PLOTS, plot_stem(product.name, number, render))


def _leads_into(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) and storage.resolved(path.parent).is_relative_to(storage.resolved(folder))
