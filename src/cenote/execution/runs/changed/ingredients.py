"""Keep what results are made of, as plain data, and say in words what changed: why something runs again.

`ingredients.json` holds them for the next run in the folder, and for `cenote diff`.
"""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

from cenote import __version__
from cenote.common.software import installed_versions
from cenote.common.text import first_of
from cenote.engine.messages import WhyRow
from cenote.execution.runs.changed.code import FROM, changed_code, changed_software
from cenote.execution.runs.changed.settings import as_mapping, changed_settings, shown, shown_pair
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_if_whole
from cenote.language.plugins import own_files, registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.own_files import REST, functions_of
from cenote.language.systematics import stage_of
from cenote.planning.identity import SOFTWARE
from cenote.planning.plan import Plan
from cenote.planning.record import write_record

VERSION = 1
"""Of how results are named: with another one, no result of an earlier run is found."""
SOURCE = "read."
"""How a source stands among what a stage needs: `read.events`."""

UNKNOWN = "it changed in a way that was not noted"
"""Where none of the ingredients tells."""
NOT_THERE = "its results are not there"
"""Where nothing has changed."""


class StageIngredients(msgspec.Struct, frozen=True):
    """What the results of a stage are made of."""

    op: str
    settings: Any = None
    """In normal form, without what is only shown."""
    code: tuple[tuple[str, ...], ...] = ()
    """Besides its settings: rows of a kind, names and digests (`code_of`); `("from", "ops.py")` names code files of its
    own, as `functions` does."""
    sees: dict[str, Any] = {}
    """Dataset → the facts of it and the constants that it may look at."""
    needs: tuple[str, ...] = ()
    """Stages that its results are made of, as far as they reach it: whose filters, columns or products it takes. A
    source stands here as `read.NAME`; without one, every source counts."""
    lineage: dict[str, str] = {}
    """Dataset → the digest of all of this, and of what it needs: another one, and the stage runs again."""


class Ingredients(msgspec.Struct, frozen=True):
    """What the results of a run are made of: the content of `ingredients.json`."""

    version: int = VERSION
    software: dict[str, str] = {}
    """Of which every result is made."""
    sources: dict[str, Any] = {}
    """Source → its settings."""
    stages: dict[str, StageIngredients] = {}
    files: dict[str, tuple[tuple[str, str, int], ...]] = {}
    """Dataset → its files: name, what is in it (or its stamp, where that is unknown), events."""
    functions: dict[str, dict[str, tuple[str, int]]] = {}
    """Code file → function → the digest of its meaning, and its line; a file that own code reads is all rest."""


def changes(before: Ingredients, after: Ingredients) -> Mapping[str, tuple[str, ...]]:
    """Stage → why its results are others now, nearest cause first; without stages whose results are the same.

    What was changed of the stage itself counts, else what was changed of the stages that reach it.
    """
    return _Changes(_as_read(before), _as_read(after)).found()


def new_files(before: Ingredients, after: Ingredients) -> Mapping[str, tuple[str, ...]]:
    """Dataset → what became of its files: `signal_9.root is new`; without datasets whose files are the same.

    A file that has another name now, or another place, is the same one.
    """
    found = {name: tuple(_changed_files(before.files.get(name, ()), files)) for name, files in after.files.items()}
    return {name: words for name, words in found.items() if words}


def write_ingredients(path: Path, ingredients: Ingredients) -> None:
    """Leave them for the next run."""
    write_record(path, _as_read(ingredients))


def read_ingredients(folder: RunFolder) -> Ingredients | None:
    """What the results of the run in a folder are made of; None where that is not known."""
    return read_if_whole(folder.ingredients, Ingredients)


def _as_read(ingredients: Ingredients) -> Ingredients:
    """As it comes back from a file: tuples are lists, and so are sets, in order."""
    return msgspec.convert(_listed(msgspec.to_builtins(ingredients, builtin_types=(set, frozenset))), Ingredients)


def _listed(value: Any) -> Any:  # Any: plain data
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _listed(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_listed(one) for one in value), key=str)
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value


_Files = Collection[tuple[str, str, int]]


def _changed_files(before: _Files, after: _Files) -> Iterator[str]:
    names, still = ({name for name, *_ in files} for files in (before, after))
    for name in _without_a_twin(after, before):
        yield f"{PurePath(name).name} {'changed' if name in names else 'is new'}"
    for name in _without_a_twin(before, after):
        if name not in still:
            yield f"{PurePath(name).name} is gone"


def _without_a_twin(files: _Files, others: _Files) -> Iterator[str]:
    """The names of those that no file among the others is the same as; each is the same as one of them at the most, and
    first those are that have kept their names."""
    left, names = Counter(content for _, content, _ in others), {name for name, *_ in others}
    for name, content, _ in sorted(files, key=lambda file: file[0] not in names):
        left[content] -= 1
        if left[content] < 0:
            yield name


def why_rows(
    counts: Mapping[str, tuple[int, int]],
    before: Ingredients | None,
    after: Ingredients,
    *,
    otherwise: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[WhyRow, ...]:
    """Why tasks run, for each stage that has some: changes first, then files; without an earlier run nothing is said.

    `counts` has how many tasks of each stage run, and how many are reused. `otherwise` knows what no ingredient tells:
    that a stage is forced, or that its results were dropped.
    """
    if before is None:
        return ()
    changed, files = changes(before, after), new_files(before, after)
    others = otherwise or {}
    found = []
    for stage, (run, reused) in counts.items():
        datasets = after.stages[stage].lineage if stage in after.stages else files
        of_files = [words for dataset in datasets for words in files.get(dataset, ())]
        causes = (*changed.get(stage, ()), *of_files) or others.get(stage, ())
        if run:
            found.append(WhyRow(stage, run, reused, causes or (NOT_THERE,)))
    return tuple(found)


class _Changes:
    """Compares the stages of two runs."""

    def __init__(self, before: Ingredients, after: Ingredients) -> None:
        self._before, self._after = before, after
        self._renamed = _renamed(before, after)
        self._general = self._of_everything()
        self._causes: dict[str, tuple[str, ...]] = {}

    def found(self) -> dict[str, tuple[str, ...]]:
        """Every stage whose lineage is another one."""
        wanted = [stage for stage in self._after.stages if self._differs(stage)]
        for stage in wanted:
            self._settle(stage)
        return {stage: (*self._causes[stage], *self._general) or (UNKNOWN,) for stage in wanted}

    def _settle(self, stage: str) -> None:
        """Note the causes of a stage, after those of what it needs; chains of stages may be long."""
        left = [stage]
        while left:
            current = left[-1]
            below = [need for need in self._needed(current) if need not in self._causes]
            if below and current not in self._causes:
                left += below
                continue
            left.pop()
            if current not in self._causes:
                self._causes[current] = self._of(current)

    def _of(self, stage: str) -> tuple[str, ...]:
        own = self._own_in_words(stage)
        reached = (cause for need in self._needed(stage) for cause in self._causes[need])
        return own or tuple(dict.fromkeys(reached)) or tuple(self._sources(stage)) or tuple(self._other_name(stage))

    def _needed(self, stage: str) -> list[str]:
        """The stages whose change may be the reason."""
        needs = self._after.stages[stage].needs
        return [need for need in needs if need in self._after.stages and need != stage and self._differs(need)]

    def _earlier(self, stage: str) -> StageIngredients | None:
        return self._before.stages.get(self._renamed.get(stage, stage))

    def _differs(self, stage: str) -> bool:
        before = self._earlier(stage)
        return before is None or any(before.lineage.get(name) != one for name, one in self._lineage(stage).items())

    def _lineage(self, stage: str) -> dict[str, str]:
        return self._after.stages[stage].lineage

    def _own_in_words(self, stage: str) -> tuple[str, ...]:
        """Of a variation whose stage has changed alike, in the name of that stage."""
        own, of = tuple(self._own(stage)), stage_of(stage)
        if of == stage or of not in self._after.stages:
            return own
        in_its_name = tuple(
            f"{of}:{words.removeprefix(f'{stage}:')}" if words.startswith(f"{stage}:") else words for words in own
        )
        return in_its_name if in_its_name == tuple(self._own(of)) else own

    def _own(self, stage: str) -> Iterator[str]:
        before, after = self._earlier(stage), self._after.stages[stage]
        if before is None:
            yield f"{stage} is new"
            return
        if before.op != after.op:
            yield f"{stage}: op changed, {before.op} → {after.op}"
        else:
            yield from (f"{stage}: {words}" for words in changed_settings(before.settings, after.settings))
        functions = self._before.functions, self._after.functions
        yield from changed_code(stage, before.code, after.code, functions=functions)
        yield from self._seen(stage, before, after)
        yield from self._other_needs(stage, before, after)

    def _seen(self, stage: str, before: StageIngredients, after: StageIngredients) -> Iterator[str]:
        """Facts, constants and datasets."""
        datasets: dict[tuple[str, str], list[str]] = {}
        for dataset, one in after.lineage.items():
            if dataset not in before.lineage:
                known = dataset in self._before.files or any(dataset in s.lineage for s in self._before.stages.values())
                yield f"{stage}: dataset {dataset} is read, too" if known else f"dataset {dataset} is new"
            elif one != before.lineage[dataset]:
                told = (_FILLINGS,) if before.settings != after.settings else ()
                for what, how in _changed_facts(before.sees.get(dataset), after.sees.get(dataset), told):
                    datasets.setdefault((what, how), []).append(dataset)
        for (what, how), names in datasets.items():
            shared = what.startswith(("constant ", "dataset"))
            of = "" if shared else f" of dataset{'s' * (len(names) > 1)} {first_of(names)}"
            yield f"{what}{of} {how}"

    def _other_needs(self, stage: str, before: StageIngredients, after: StageIngredients) -> Iterator[str]:
        now = {self._renamed.get(need, need): need for need in after.needs}
        for need in before.needs:
            if need not in now and not need.startswith(SOURCE):
                gone = need not in self._after.stages and need not in self._renamed.values()
                yield f"{need} is gone" if gone else f"{stage}: does not follow {need} any more"
        for need, name in now.items():
            if need not in before.needs and need in self._before.stages:
                yield f"{stage}: follows {name} now"

    def _sources(self, stage: str) -> Iterator[str]:
        named = [need.removeprefix(SOURCE) for need in self._after.stages[stage].needs if need.startswith(SOURCE)]
        for source in named or ([] if self._needs_stages(stage) else self._after.sources):
            if source not in self._before.sources:
                yield f"source {source} is new"
            elif source in self._after.sources:
                old, new = self._before.sources[source], self._after.sources[source]
                yield from (f"source {source}: {words}" for words in changed_settings(old, new))

    def _needs_stages(self, stage: str) -> bool:
        return any(need in self._after.stages for need in self._after.stages[stage].needs)

    def _other_name(self, stage: str) -> Iterator[str]:
        if stage in self._renamed:
            yield f"{stage} was called {self._renamed[stage]}"

    def _of_everything(self) -> tuple[str, ...]:
        if self._before.version != self._after.version:
            return ("Cenote names results in another way now",)
        return changed_software(self._before.software, self._after.software)


def _renamed(before: Ingredients, after: Ingredients) -> dict[str, str]:
    """Stage → what it was called, where one that is gone did the same."""
    gone = [name for name in before.stages if name not in after.stages]
    found: dict[str, str] = {}
    for name, stage in after.stages.items():
        if name not in before.stages:
            same = [one for one in gone if _does_the_same(before.stages[one], stage) and one not in found.values()]
            if same:
                found[name] = same[0]
    return found


def _does_the_same(one: StageIngredients, other: StageIngredients) -> bool:
    return (one.op, one.settings) == (other.op, other.settings)


def _changed_facts(before: Any, after: Any, told: Collection[str]) -> Iterator[tuple[str, str]]:  # Any: plain data
    """What changed of what a stage may look at, and how: (`constant lumi`, `changed, 35.9 → 36.3`); without what its
    settings have told."""
    for path, old, new in _leaves_that_differ((), before, after):
        if path[:1] in [(one,) for one in told]:
            continue
        if path == ("datasets",) and isinstance(old, list) and isinstance(new, list):
            yield "datasets", f"changed: {_changed_names(old, new)}"
            continue
        name = ".".join(one for one in path if one not in _HEADS).removeprefix("dataset_") or "name"
        what = f"constant {name}" if path[:1] == ("constants",) else name
        if path[:1] == (_FILLINGS,):
            what = " of ".join([*reversed(path[2:]), f"variation {path[1]}"])
        if old is None or new is None:
            yield what, f"added, {shown(new)}" if old is None else f"removed, was {shown(old)}"
        else:
            yield what, f"changed, {shown_pair(old, new)}"


_FILLINGS = "fillings"
"""Key of what a histogram is filled with in each variation."""
_HEADS = ("constants", "facts", "dataset", "metadata")
"""Keys below which the names are that people know."""


def _leaves_that_differ(path: tuple[str, ...], before: Any, after: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    before, after = as_mapping(before), as_mapping(after)
    if before == after:
        return
    if path == ("constants",):  # of which it looked at none before, or does not any more
        before, after = before or {}, after or {}
    if path == (_FILLINGS,):
        before, after = ({one["label"]: one for one in fillings or ()} for fillings in (before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*after, *before)):
            yield from _leaves_that_differ((*path, key), before.get(key), after.get(key))
    else:
        yield path, before, after


def _changed_names(before: list[Any], after: list[Any]) -> str:
    added = [f"{name} is new" for name in after if name not in before]
    removed = [f"{name} is gone" for name in before if name not in after]
    return ", ".join([*added, *removed]) or "in another order"


def ingredients_of(plan: Plan) -> Ingredients:
    """What the results of a plan are made of."""
    folder = plan.workflow.folder.absolute()
    targets = [plugin.target for plugin in plan.workflow.plugins]
    sources = own_files.sources_of(targets)
    code = {os.path.relpath(one.path, folder): functions_of(one.source) for one in sources if one.source}
    read = {os.path.relpath(one.path, folder): {REST: (one.digest, 1)} for one in own_files.resources_of(targets)}
    own = {**code, **read}
    software = {"cenote": __version__, **installed_versions(SOFTWARE)}
    return Ingredients(
        software={name: found for name, found in software.items() if found},
        sources={use.id: {"kind": use.kind, **use.settings} for use in plan.workflow.sources},
        stages={
            stage: StageIngredients(
                op=made.op,
                settings=made.settings,
                code=(*made.code, (FROM, *own))
                if made.op not in registry.built_in_names(PluginKind.OPERATION)
                else made.code,
                sees=dict(made.sees),
                needs=(*made.needs, f"{SOURCE}{made.source}"),
                lineage=dict(made.lineage),
            )
            for stage, made in plan.made_of.items()
        },
        files=_files_of(plan),
        functions=own,
    )


def _files_of(plan: Plan) -> dict[str, tuple[tuple[str, str, int], ...]]:
    """Dataset → its files, with what is in them and how many events are read."""
    found: dict[str, dict[tuple[str, str], int]] = {}
    for partition in plan.partitions:
        files = found.setdefault(partition.dataset, {})
        file = (partition.url, partition.content or partition.stamp)
        files[file] = files.get(file, 0) + partition.events
    return {name: tuple((*file, events) for file, events in files.items()) for name, files in found.items()}
