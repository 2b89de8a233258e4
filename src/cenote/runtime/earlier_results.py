"""Find what earlier runs have done: results that are whole, and what led to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cenote.engine.messages import FailureInfo
from cenote.plan.plan import Plan, maker_of
from cenote.runs.folder import RunFolder
from cenote.runtime.task_specs import TaskSpecs
from cenote.text import plural
from cenote.values import dataclass
from cenote.worker.results.run_key import NAME as KEY
from cenote.worker.results.run_key import trusted_key
from cenote.worker.results.skim import is_as_written
from cenote.worker.results.store import DamagedResultError, Store

_MOST_TIMES = 3
"""So often a result is made again that proves to be damaged when it is read."""


@dataclass(frozen=True)
class EarlierResults:
    """What is there."""

    whole: tuple[int, ...] = ()
    """Tasks with everything that they made: what is in the store, and the files that they wrote."""
    spared: tuple[int, ...] = ()
    """Tasks whose results are not needed: everything that would read them is there already."""
    damaged: tuple[int, ...] = ()
    """Tasks with results that are there, but not as they were written."""

    def __len__(self) -> int:
        return len(self.whole) + len(self.spared)


def earlier_results(plan: Plan, store: Store, specs: TaskSpecs, files: Path) -> EarlierResults:
    """Look at everything that the plan would make; `files` is where skims lie."""
    there = store.names()
    whole, damaged = [], []
    for task in range(len(plan.tasks)) if there else ():
        names = specs.stored_names(task)
        if not there.issuperset([plan.tasks.key(task), *names]):  # a merge without some of its parts has another name
            continue
        if not all(store.is_whole(name) for name in names):
            damaged.append(task)
        elif not writes_files(plan, task):
            whole.append(task)
        else:
            with_files = _files_are_there(store, names[0], files)
            (damaged if with_files is None else whole if with_files else []).append(task)
    return EarlierResults(tuple(whole), spared_tasks(plan, whole), tuple(damaged))


def spared_tasks(plan: Plan, whole: Collection[int]) -> tuple[int, ...]:
    """Tasks that need not run although their results are not there: whatever would read them need not run either."""
    if not whole:
        return ()
    there, runs, spared = set(whole), set[int](), list[int]()
    results = plan.result_tasks()
    for task in reversed(range(len(plan.tasks))):
        if task in there:
            continue
        if results[task] or any(user in runs for user in plan.tasks.users_of(task)):
            runs.add(task)
        else:
            spared.append(task)
    return tuple(reversed(spared))


def tasks_to_reuse(plan: Plan, folder: RunFolder, forced: Collection[int]) -> frozenset[int]:
    """The tasks that a run in this folder would not run; nothing is changed there."""
    if not folder.holds_run or trusted_key(folder.store) is None:
        return frozenset()
    results = earlier_results(plan, Store(folder.store), TaskSpecs(plan), folder.products)
    whole = set(results.whole).difference(forced)
    return frozenset([*whole, *spared_tasks(plan, whole)])


def writes_files(plan: Plan, task: int) -> bool:
    """Whether what a task made lies partly outside the store."""
    return "files" in plan.segments[int(plan.tasks.segment[task])].products.values()


def _files_are_there(store: Store, name: str, folder: Path) -> bool | None:
    """Whether all files of a result are there; None for a result that is damaged, or a file that was changed."""
    try:
        products = store.read(name)
        stored = store.path(name).stat().st_mtime_ns
    except (DamagedResultError, FileNotFoundError):
        return None
    others = [folder / one["path"] for one in _listed(products) if not is_as_written(one, folder, stored)]
    return None if any(file.exists() for file in others) else not others


def _listed(products: Any) -> Iterator[Mapping[str, Any]]:
    """Every file, in what a task of a segment with skims stored."""
    for name, files in products.items():
        if maker_of(name) != name:
            yield from files


class Reuse:
    """What a run takes over from earlier ones, and what it says about what it cannot take over."""

    def __init__(self, plan: Plan, folder: RunFolder, force: Collection[int], *, resumed: bool) -> None:
        self.resumed = resumed
        self.warnings: list[str] = []
        self._plan, self._folder, self._store = plan, folder, Store(folder.store)
        self._dropped = Counter[str]()
        self._trusted = trusted_key(folder.store) is not None
        if resumed and not self._trusted and self._store.names():
            self.warnings.append(
                f"{folder.store / KEY} is missing, or not yours alone: the results that lie beside it are not trusted, "
                "and everything runs again"
            )
        specs = TaskSpecs(plan)
        for task in force:
            self._remove(specs.stored_names(task))

    def found(self, specs: TaskSpecs) -> EarlierResults:
        """What is there now. Results that are not whole are removed, and that is said."""
        results = earlier_results(self._plan, self._store, specs, self._folder.products)
        if results.damaged and self._trusted:
            self._say(results.damaged)
        for task in results.damaged:
            self._remove(specs.stored_names(task))
        return results

    def drop_damaged(self, failures: Iterable[FailureInfo]) -> bool:
        """Remove the damaged results that tasks have met; returns whether there were any that may be made again."""
        return self.drop(Path(one.file).name for one in failures if one.cause == "damaged" and one.file)

    def drop(self, names: Iterable[str]) -> bool:
        """Remove these results; returns whether there were any, and none too often."""
        damaged = list(dict.fromkeys(names))
        self._dropped.update(damaged)
        self._remove(damaged)
        keys = {name.partition("-")[0] for name in damaged}
        self._say([task for task in range(len(self._plan.tasks)) if self._plan.tasks.key(task) in keys])
        return bool(damaged) and max(self._dropped[name] for name in damaged) <= _MOST_TIMES

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._store.remove(name)

    def _say(self, tasks: Sequence[int]) -> None:
        segments = dict.fromkeys(int(self._plan.tasks.segment[task]) for task in tasks)
        for number in segments:
            count = sum(int(self._plan.tasks.segment[task]) == number for task in tasks)
            what = f"{plural(count, 'damaged result')} of '{self._plan.segments[number].name}'"
            self.warnings.append(f"{what} cannot be reused and will be recomputed")
