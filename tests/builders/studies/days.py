"""Let an analyst edit a study and run it, again and again, and see what is stale."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType
from unittest.mock import patch

import cenote
from builders.studies.comparison import Here, Ran, differences, run_here
from builders.studies.edits import Editor
from builders.studies.random_study import random_study
from builders.studies.study import Study
from cenote.common.errors import CenoteError
from cenote.common.software import installed_versions
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.planning import identity
from cenote.testing.muons import write_muons

RETURNS = 0.12
"""How often somebody goes back to what there was."""


def write_pool(folder: Path, count: int = 8) -> tuple[Path, ...]:
    """Small files, no two alike."""
    return tuple(
        write_muons(folder / f"pool{number}.root", events=20 + 11 * number, seed=number, weighted=True)
        for number in range(count)
    )


@contextmanager
def in_this_process(folder: Path) -> Iterator[None]:
    """Runs find the module with a function for expressions, and stay in this process."""
    forget = registry.forget_added()
    with ExitStack() as at_last:
        at_last.callback(forget)
        registry.add(PluginKind.BACKEND, "here", Here)
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        at_last.enter_context(patch.object(sys, "path", [str(folder / "lib"), *sys.path]))
        at_last.callback(sys.modules.pop, "bending", None)
        yield


@dataclass
class Day:
    """Edits and runs in one folder."""

    folder: Path
    study: Study

    def written(self, study: Study, name: str) -> Path:
        """The folder of this name, with the study in it."""
        place = self.folder / name
        study.write(place)
        module = self.folder / "lib" / "bending.py"
        if not module.exists() or module.read_text() != study.function:
            module.write_text(study.function)
            importlib.invalidate_caches()
        return place

    def run(self, study: Study, name: str, *, fresh: bool = False, out: str = "out") -> Ran:
        """Run a study in a folder of this name; what is in it is forgotten first, or used."""
        place = self.written(study, name)
        with self.pretending(study.software):
            return run_here(place, place / out, fresh=fresh)

    @contextmanager
    def pretending(self, software: Mapping[str, str], module: ModuleType = identity) -> Iterator[None]:
        """To whom makes up what results are known by, packages have these versions."""

        def versions(packages: Sequence[str]) -> dict[str, str | None]:
            found = installed_versions(packages)
            return {**found, **{one: version for one, version in software.items() if one in found}}

        ours = software.get("cenote", cenote.__version__)
        with patch.multiple(module, installed_versions=versions, __version__=ours):
            yield

    def stale(self, study: Study) -> tuple[list[str], Ran]:
        """What is not as a fresh run leaves it; and the run. Raises a CenoteError where the study cannot be run."""
        fresh = self.run(study, "fresh", fresh=True)
        try:
            ran = self.run(study, "work")
        except CenoteError as problem:
            return [f"only a fresh run succeeds: {problem}"], fresh
        return list(differences(ran.run, fresh.run)), ran


def play(seed: int, folder: Path, pool: tuple[Path, ...], edits: int) -> Iterator[str]:
    """A day of so many edits; what becomes stale, or costs something in vain, in words."""
    random = Random(seed)
    editor = Editor(random, pool)
    day = _begun(random, folder, pool)
    history = [day.study]
    for number in range(edits):
        name, after, free = editor.edited(day.study)
        if random.random() < RETURNS:
            name, after, free = "back", random.choice(history), False
        try:
            wrong, ran = day.stale(after)
        except CenoteError:  # what was edited is no study any more
            continue
        if wrong or (free and ran.done):
            yield f"day {seed}, edit {number}: {name}: {wrong}; {len(ran.done)} tasks ran"
        day.study = after
        history.append(after)


def _begun(random: Random, folder: Path, pool: tuple[Path, ...]) -> Day:
    while True:
        day = Day(folder, random_study(random, pool))
        try:
            day.stale(day.study)
        except CenoteError:  # some that are made up cannot be run
            continue
        return day
