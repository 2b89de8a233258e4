"""Nothing can be left out of what results are known by: some small change would find results that are stale."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from builders.studies.comparison import Ran, differences, same
from builders.studies.days import Day, in_this_process
from builders.studies.mutants import UNCHANGED, Asked, asking, mutants
from builders.studies.study import Study
from builders.studies.whole_study import CHANGES, whole_study, write_whole_pool
from cenote.api import Run
from cenote.planning import identity

SPARED = {
    "code_of: os.path.relpath(file.path, workflow.folder)": "own code that goes through files finds them by name",
    "code_of: m.name": "two modifiers of one file have the same code",
    "code_of: name": "its version counts, which hardly two packages share",
    "code_of: version": "no package is here in two versions",
    "code_of: stage.operation.fingerprint": "operations that were typed at a prompt have no other code",
    "code_of: code_digest(PluginKind.PRODUCT, step.product or '')": "the study has no kind of product of its own",
    "code_of: ['product', code_digest(PluginKind.PRODUCT, step.product or '')]": "the same",
    "code_of: *(['software', name, version] for name, version in versions_of(stage.operation))": "nor a network",
    "_add: {column}": "whoever reads a column says its name",
    "_add: *([copies[column]] if column in copies else ())": "settings name it too, but not how it came to be",
    "_add: copies[column]": "the same",
    "_column: found": "what can join different columns of one name reads none itself",
    "_from: {column}": "a column that nobody defines has no values",
    "_from: {stage}": "the same",
    "through: self._rows[step.stage]": "a stage that adds columns and drops events is not kept here",
    "through: *filter(None, found)": "what is kept is read by nobody but what it is kept for",
    "partition_digest: name": "two columns that are filled have two places in the list",
    "partition_digest: fills[name].type": "a file of other columns is another file",
    "_file_of: {url}": "two files of one size and time are rare",
    "_used: dataset if dataset in tasks else -1": "a number, of no task if it is another one",
}
"""Ingredients that no change of the study needs → why they are there."""

LAST = (
    "no modifier", "a table of own code", "an event type", "a constant", "the order of datasets", "another dataset",
    "a file", "a file less", "the first entry", "the last entry", "the columns of a skim", "the order of branches",
    "another branch", "a cut in another branch", "a variation", "what a variation replaces",
)  # fmt: skip
"""Changes that find nothing which others do not find: they are made where something is left."""


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    study = whole_study(write_whole_pool(tmp_path / "pool"))
    with in_this_process(tmp_path):
        yield Day(tmp_path, study)


def changed(study: Study, name: str) -> Study:
    return CHANGES[name](replace(study, flow=copy.deepcopy(study.flow)))


def ran(day: Day, study: Study, out: str) -> tuple[Asked, Ran]:
    with asking() as asked:
        return asked, day.run(study, "work", out=out, fresh=True)


def other_products(one: Run, other: Run) -> set[str]:
    """Those that both runs have, and that differ."""
    both = set(one.products).intersection(other.products)
    lists = {name for name in both if name.endswith(":files")}
    files = [text.split()[1] for text in differences(one, other) if text.startswith("file ")]
    folders = {name: f"{name.removesuffix(':files')}/".lower() for name in lists}
    written = {name for name in lists if any(file.lower().startswith(folders[name]) for file in files)}
    return written | {name for name in both - lists if not same(one.product(name), other.product(name))}


def stale(before: dict[str, bytes], after: dict[str, bytes], others: set[str]) -> set[str]:
    """What is known by the same as before although it differs."""
    return {name for name in others if name in before and before[name] == after.get(name)}


def test_a_change_finds_every_ingredient_that_is_left_out(day: Day) -> None:
    asked, base = ran(day, day.study, "base")
    with chdir(day.folder / "work"):
        tried = [mutant for mutant in mutants() if mutant.written not in SPARED]
        ids = {mutant: mutant.ids(asked) for mutant in (UNCHANGED, *tried)}
    for name in sorted(CHANGES, key=LAST.__contains__):
        if len(ids) == 1:
            break
        study = changed(day.study, name)
        asked, after = ran(day, study, "after")
        others = set(base.run.products) if study.software else other_products(base.run, after.run)
        with chdir(day.folder / "work"):
            for mutant, before in list(ids.items()):
                module = mutant.module if mutant.name.startswith("identity") else identity
                with day.pretending(study.software, module):
                    now = mutant.ids(asked)
                if mutant is UNCHANGED:
                    assert not stale(before, now, others), name
                    others |= {one for one in before.keys() & now.keys() if " " in one and before[one] != now[one]}
                elif stale(before, now, others):
                    del ids[mutant]

    left = [mutant.name for mutant in ids if mutant is not UNCHANGED]
    assert not left, left
