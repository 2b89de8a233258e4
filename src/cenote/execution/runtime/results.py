"""Find what earlier runs have made, lay it out for this one, and keep what this one makes for later ones.

Products go to the result store, by what they are known by. What belongs to the folder of the run alone stays in its own
store: lists of the files that stages write there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cenote.common.text import plural
from cenote.engine.messages import FailureInfo, TaskDone
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runtime.demand import Demand, demand_of
from cenote.execution.runtime.result_store.store import open_store
from cenote.execution.runtime.task_specs import TaskSpecs
from cenote.execution.worker.results.skim import is_as_written, is_written_again
from cenote.execution.worker.results.store import NAME as KEY
from cenote.execution.worker.results.store import DamagedResultError, ResultName, Store, trusted_key
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.execution.worker.task_spec import TaskSpec
from cenote.planning.plan import Plan, columns_of, events_of, is_for_later, is_skim, maker_of
from cenote.planning.stages.selection import followers_of

_MOST_TIMES = 3
"""So often a result is made again that proves to be damaged when it is read."""


class Results:
    """What there is of a plan's results."""

    def __init__(self, plan: Plan, folder: RunFolder, force: Collection[str] = (), *, fresh: bool = False) -> None:
        self.warnings: list[str] = []
        """What is to be told, until it is taken from here."""
        self.owners = set[str]()
        """Whose results this run takes, besides one's own."""
        self._plan, self._folder = plan, folder
        self._kept = open_store(plan.workflow.execution.store, folder, self.warnings.append)
        if fresh:  # what is made now takes their place
            self._kept.drop(one for task in range(len(plan.tasks)) for one in self._ids_of(task))
        self._store = Store(folder.store)
        self._trusted = trusted_key(folder.store) is not None
        self._dropped = Counter[str]()
        forced = followers_of(plan.workflow, force)
        steps = [step for segment in plan.segments for step in segment.steps if step.stage in forced]
        self._forced = forced.union(step.product_name for step in steps)
        self._refused: set[bytes] = set()
        """Products that are to be made again."""
        self._laid: dict[str, tuple[int, bytes]] = {}
        """Name in the run's store → the task that made it in an earlier run, or would have, and what it is known by."""
        self._spoiled: list[int] = []
        """Tasks whose files somebody has changed."""
        if not self._trusted and self._store.names():
            self.warnings.append(
                f"{folder.store / KEY} is missing, or not yours alone: the results that lie beside it are not trusted, "
                "and are made again"
            )

    def demand(self) -> Demand:
        """What there is to do; nothing is changed."""
        there = self._store.names() if self._trusted else set()
        names = TaskSpecs(self._plan, Demand())
        self._spoiled.clear()

        def are_there(task: int, ids: Mapping[str, bytes]) -> Collection[str]:
            asked = {name: one for name, one in ids.items() if self._may_reuse(name, one)}
            found = self._kept.find(one for name, one in asked.items() if not is_skim(name))
            return [
                name
                for name, one in asked.items()
                if (one in found if not is_skim(name) else one.hex() in there and self._files_are_there(task, one))
            ]

        def are_held(task: int, ids: Mapping[str, bytes]) -> Collection[str]:
            asked = {stage: one for stage, one in ids.items() if self._may_reuse(events_of(stage), one)}
            kept, events = self._kept.find(asked.values()), {one: names.name_of_events(task, one) for one in asked}
            here = [one for one, name in events.items() if name in there and self._store.is_whole(name)]
            return {*here, *(stage for stage, one in asked.items() if one in kept)}

        return demand_of(self._plan, are_there, are_held)

    def lay_out(self) -> TaskSpecs:
        """Put what is read of it where tasks find it; how what is left has to be done."""
        while True:
            specs = TaskSpecs(self._plan, self.demand())
            if self._spoiled and self._trusted:
                self._say(self._spoiled)
            damaged = [problem.name for problem in self._laid_out(specs)]
            if not damaged:
                return specs
            self.drop(damaged)

    def _laid_out(self, specs: TaskSpecs) -> Iterator[DamagedResultError]:
        """Copies what is found; gives what proves to be damaged."""
        for task, names in specs.demand.found.items():
            ids = self._plan.ids.of(self._plan.tasks, task)
            known_by = {name: ids[name] for name in sorted(names)}
            try:
                if products := {name: one for name, one in known_by.items() if not is_skim(name)}:
                    self._store.write_packed(specs.name_of_found(task), self._kept.packed(products))
                    self.owners.update(filter(None, map(self._kept.owner_of, products.values())))
                if skims := {name: self._files(one) for name, one in known_by.items() if is_skim(name)}:
                    self._store.write(specs.name_of_found_files(task), skims)
            except DamagedResultError as problem:
                yield problem

    def _files(self, known_by: bytes) -> Any:
        """A list of files that an earlier run wrote, whatever its stage was called then."""
        (found,) = self._store.read(known_by.hex()).values()
        return found

    def lay_out_for(self, spec: TaskSpec, specs: TaskSpecs) -> None:
        """A task is about to be sent: put what earlier runs kept for it where it finds it. All of it at the start might
        be more than there is room for."""
        ids = self._plan.ids.of(self._plan.tasks, spec.task)
        for stage, name in spec.given.items():
            self._lay(name, spec.task, columns_of(stage), ids[columns_of(stage)])
        names = {name for piece in spec.pieces for _, imported in piece.imports for name in imported}
        for name in names.intersection(specs.held):
            if name not in self._store:
                self._lay(name, *specs.held[name])

    def _lay(self, name: str, task: int, product: str, known_by: bytes) -> None:
        self._laid[name] = task, known_by
        self._store.write_packed(name, self._kept.packed({product: known_by}))

    def take_away(self, specs: TaskSpecs, task: int) -> None:
        """A task is over, for now: remove what was put there for it alone."""
        for name in specs.given(task).values():
            self._store.remove(name)

    def keep(self, specs: TaskSpecs, done: TaskDone) -> None:
        """A task is done: what it made is there for later runs, and what it kept for them."""
        task, seconds = done.task, done.seconds
        for product, (name, known_by) in specs.for_later(task).items():
            if product in done.kept and not done.kept[product].read and name in self._store:
                with suppress(DamagedResultError):
                    self._add(name, {product: known_by}, done.kept[product].seconds)
                self._store.remove(name)
        if specs.is_partial(task):
            return
        ids = self._plan.ids.of(self._plan.tasks, task)
        made = {name: ids[name] for name in specs.demand.made[task] if name in ids}
        name = specs.name_of(task)
        if products := {name: one for name, one in made.items() if not is_skim(name)}:
            self._add(name, products, seconds)
        for skim in filter(is_skim, made):
            self._store.write(made[skim].hex(), {skim: self._store.read(name)[skim]})

    def _add(self, name: str, products: Mapping[str, bytes], seconds: float) -> None:
        """Keep products of a bundle. What was asked for takes the place of what an earlier run kept: whoever asks may
        know of something that no id tells."""
        self._kept.drop(known_by for product, known_by in products.items() if maker_of(product) in self._forced)
        self._kept.add(self._store.read_packed(name), products, seconds=seconds)

    def forget(self, specs: TaskSpecs, task: int) -> list[str]:
        """No task reads its results any more; the names under which they lay."""
        whole = self._plan.tasks.key(task)
        names = [name for name in specs.bundles(task) if _key_in(name) == whole]  # none with parts missing
        names += specs.names_of_events(task)
        for name in names:
            self._store.remove(name)
        return names

    def drop_damaged(self, failures: Iterable[FailureInfo]) -> bool:
        """Remove the damaged results that tasks have met; returns whether there were any that may be made again."""
        return self.drop(Path(one.file).name for one in failures if one.cause == "damaged" and one.file)

    def drop(self, names: Iterable[str]) -> bool:
        """Remove these results; returns whether there were any, and none too often."""
        damaged = list(dict.fromkeys(names))
        self._dropped.update(damaged)
        for name in damaged:
            self._store.remove(name)
        self._say(list(self._refuse(damaged)))
        return bool(damaged) and max(self._dropped[name] for name in damaged) <= _MOST_TIMES

    def _refuse(self, damaged: Collection[str]) -> Iterator[int]:
        """The tasks that have results of these names; what they held is made again."""
        laid = [self._laid[name] for name in damaged if name in self._laid]
        refused = {known_by for _, known_by in laid}
        yield from (task for task, _ in laid)
        keys = {_key_in(name) for name in damaged if name not in self._laid}
        names = TaskSpecs(self._plan, Demand())
        for task in range(len(self._plan.tasks)):
            ids = self._plan.ids.of(self._plan.tasks, task)
            same = [one for one in self._ids_of(task) if one.hex() in keys]
            if same or self._plan.tasks.key(task) in keys:
                refused.update(same or [one for name, one in ids.items() if not is_for_later(name)])
                yield task
            elif any(names.name_of_events(task, stage) in keys for stage in self._leaving(task)):
                yield task
        self._refused |= refused
        self._kept.drop(refused)

    def _leaving(self, task: int) -> Mapping[str, bytes]:
        """The stages whose events leave a task, and what these are known by."""
        segment = self._plan.segments[int(self._plan.tasks.segment[task])]
        return self._plan.ids.leaving_of(segment, task)

    def _ids_of(self, task: int) -> Iterator[bytes]:
        """Of all that may be kept of a task."""
        yield from self._plan.ids.of(self._plan.tasks, task).values()
        yield from self._leaving(task).values()

    def _may_reuse(self, name: str, known_by: bytes) -> bool:
        return maker_of(name) not in self._forced and known_by not in self._refused

    def _files_are_there(self, task: int, known_by: bytes) -> bool:
        """Whether all files of a list are there as they were written.

        One that a later run wrote again, of other settings, is simply not there.
        """
        name, folder = known_by.hex(), self._folder.products
        try:
            products = self._store.read(name)
            stored = self._store.path(name).stat().st_mtime_ns
        except (DamagedResultError, FileNotFoundError):
            self._spoiled.append(task)
            return False
        listed = (file for files in products.values() for file in files)
        others = [folder / one["path"] for one in listed if not is_as_written(one, folder, stored)]
        left = [file for file in others if file.exists()]
        digests = WrittenFiles(self._store.folder).digests() if left else {}
        if not all(is_written_again(file, digests.get(file)) for file in left):
            self._spoiled.append(task)
        return not others

    def _say(self, tasks: Sequence[int]) -> None:
        segments = Counter(int(self._plan.tasks.segment[task]) for task in tasks)
        for number, count in segments.items():
            what = f"{plural(count, 'damaged result')} of '{self._plan.segments[number].name}'"
            self.warnings.append(f"{what} cannot be reused and will be recomputed")

    def make_room(self, specs: TaskSpecs, needed: Collection[str], limit: int) -> None:
        """Remove what no later run finds, and then, the oldest first, what goes beyond the limit, never what is
        `needed`."""
        current = {self._plan.tasks.key(task) for task in range(len(self._plan.tasks))}
        current.update(name for task in specs.demand.made for name in specs.names_of_events(task))
        sizes = self._store.sizes()
        for name in [name for name in sizes if _key_in(name) in current]:
            self._store.remove(name)
            del sizes[name]
        mine = set(needed).union(self._names_that_stay())
        total = sum(size for name, (size, _) in sizes.items() if name not in mine)
        for name in sorted(sizes, key=lambda each: sizes[each][1]):
            if total <= limit:
                return
            if name not in mine:
                self._store.remove(name)
                total -= sizes[name][0]

    def _names_that_stay(self) -> Iterator[str]:
        for task in range(len(self._plan.tasks)):
            yield from (one.hex() for name, one in self._plan.ids.of(self._plan.tasks, task).items() if is_skim(name))

    def close(self) -> None:
        """Nothing more is found or kept."""
        self._kept.close()


def _key_in(name: str) -> str:
    """Empty where no result is called so."""
    found = ResultName.read(name)
    return found.key if found else ""


def demand_in(plan: Plan, folder: RunFolder, force: Collection[str]) -> Demand:
    """What a run in this folder would have to do; nothing is changed there."""
    results = Results(plan, folder, force)
    try:
        return results.demand()
    finally:
        results.close()
