"""Say in words how the code of a stage differs, and make lines of all causes why stages run again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from cenote.common.text import plural, with_variations
from cenote.engine.messages import WhyRow
from cenote.execution.runs.changed.settings import shown_pair
from cenote.language.plugins.own_files import CLASS, REST
from cenote.planning.record import PlannedStage

Functions = Mapping[str, Mapping[str, tuple[str, int]]]
"""Code file → function → digest of its meaning, and its line."""
Rows = Iterable[tuple[str, ...]]
"""What a stage is made of besides its settings: a kind, names, digests."""

_Values = list[tuple[str, ...]]
"""What follows the names in rows."""

FROM = "from"
"""The kind of row that names the code files of a stage."""
_NAMED = {"file": 1, "software": 1, "function": 1, "modifier": 1}
"""Kind of row → how many names follow it."""
_VERSION = re.compile(r"\d+(\.\w+)*([+-]\S+)?")


def changed_code(stage: str, before: Rows, after: Rows, *, functions: tuple[Functions, Functions]) -> tuple[str, ...]:
    """`MuonSF: corrections.json changed`, `ops.py: function scale changed (line 14)`."""
    old, new = _by_name(before), _by_name(after)
    files = {name for row in (*old, *new) if row[0] == FROM for name in row[1:]}
    found: list[str] = []
    for row in dict.fromkeys((*new, *old)):
        if row[0] != FROM and old.get(row) != new.get(row):
            said = changed_functions(*functions, files) if row[0] == "operation" else ()
            found += said or [_words(stage, row, old.get(row), new.get(row))]
    return tuple(dict.fromkeys(found))


def changed_functions(before: Functions, after: Functions, files: Collection[str] = ()) -> tuple[str, ...]:
    """`ops.py: function scale changed (line 14)`, of these files, or of all."""
    found = [name for name in dict.fromkeys((*after, *before)) if not files or name in files]
    return tuple(words for name in found for words in _of_file(name, before.get(name, {}), after.get(name, {})))


def changed_software(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """`numpy 2.4 → 2.5`."""
    found = [name for name in dict.fromkeys((*after, *before)) if before.get(name) != after.get(name)]
    return tuple(_of_package(name, before.get(name), after.get(name)) for name in found)


def _by_name(rows: Rows) -> dict[tuple[str, ...], _Values]:
    """Kind and names of a row → what follows them; several of a name keep their order."""
    found: dict[tuple[str, ...], _Values] = {}
    for row in rows:
        names = len(row) if row[0] == FROM else 1 + _NAMED.get(row[0], 0)
        found.setdefault(tuple(row[:names]), []).append(tuple(row[names:]))
    return found


def _words(stage: str, row: tuple[str, ...], before: _Values | None, after: _Values | None) -> str:
    kind, name = row[0], PurePath(row[-1]).name if row[0] == "file" else row[-1]
    verb = "added" if before is None else "removed" if after is None else "changed"
    match kind:
        case "software":
            return _of_package(name, _version(before), _version(after))
        case "operation":
            return "something that own code imports or reads changed"
        case "file":
            became = "is no longer read" if after is None else "is new" if before is None else "changed"
            return f"{stage}: {name} {became}"
        case "modifier" if before is not None and after is not None:
            settings = [one[:1] for one in before] != [one[:1] for one in after]
            return f"{stage}: {'settings' if settings else 'code'} of modifier {name} changed"
        case "write":
            return f"{stage}: `write` {verb}"
        case "modifier" | "function":
            return f"{stage}: {kind} {name} {verb}"
        case _:
            return f"{stage}: code of its {kind} {verb}"


def _version(found: _Values | None) -> str | None:
    return " ".join(found[0]) if found else None


def _of_package(name: str, before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return f"{name} {after} is new" if before is None else f"{name} {before} is gone"
    old, new = (text.removeprefix(f"{name} ") for text in (before, after))
    if _VERSION.fullmatch(old) and _VERSION.fullmatch(new):
        return f"{name} {old} → {new}"
    return f"code of {name} changed" if " " not in f"{old}{new}" else f"{name}: {shown_pair(old, new)}"


def _of_file(name: str, before: Mapping[str, tuple[str, int]], after: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    file = PurePath(name).name
    if not before or not after:
        yield f"{file} is {'new' if after else 'gone'}"
        return
    for function in dict.fromkeys((*after, *before)):
        old, new = before.get(function), after.get(function)
        if old is None or new is None:
            yield f"{file}: {_function(function)} is {'gone' if new is None else f'new (line {new[1]})'}"
        elif old[0] != new[0] and function != REST:
            yield f"{file}: {_function(function)} changed (line {new[1]})"
    if REST in before and REST in after and before[REST][0] != after[REST][0]:
        has_functions = {*before, *after} != {REST}
        yield f"{file} changed{' outside its functions' if has_functions else ''}"


def _function(name: str) -> str:
    return name if name.startswith(CLASS) else f"{'method' if '.' in name else 'function'} {name}"


# Word why stages run again: a line for each, and no cause twice.


MOST_STAGES = 12
_MOST_CAUSES = 3


def causes_in_words(rows: Sequence[WhyRow]) -> dict[str, str]:
    """Stage → its causes; those that an earlier row has are said by its stage."""
    said: dict[tuple[str, ...], str] = {}
    found = {}
    for row in rows:
        if row.causes in said:
            found[row.stage] = f"as {said[row.causes]}"
        elif row.causes:
            said[row.causes] = row.stage
            own = [cause.removeprefix(f"{row.stage}: ") for cause in row.causes]
            more = [f"and {len(own) - _MOST_CAUSES:,} more"] if len(own) > _MOST_CAUSES else []
            found[row.stage] = "; ".join([*own[:_MOST_CAUSES], *more])
    return found


def lines_of_why(rows: Sequence[WhyRow], planned: Sequence[PlannedStage]) -> list[str]:
    """`Select: 12 of 36 tasks run: cut changed, "pt > 20" → "pt > 25"`, for each stage of the file that runs; a
    variation has no line of its own where its causes are those of its stage."""
    shown, variations = without_variations(rows, {stage.id: stage.variation_of for stage in planned})
    words = causes_in_words(shown)
    lines = [
        f"{with_variations(row.stage, variations[row.stage])}: {tasks_in_words(row)}"
        + (f": {words[row.stage]}" if row.stage in words else "")
        for row in shown[:MOST_STAGES]
    ]
    return lines + ([f"… and {plural(len(shown) - MOST_STAGES, 'more stage')}"] if len(shown) > MOST_STAGES else [])


def without_variations(
    rows: Sequence[WhyRow], variation_of: Mapping[str, str]
) -> tuple[list[WhyRow], Mapping[str, int]]:
    """Rows less those of variations that say the same as their stage's, and how many of them each stage has."""
    nominal = {row.stage: row.causes for row in rows}
    kept, more = list[WhyRow](), dict.fromkeys(nominal, 0)
    for row in rows:
        of = variation_of.get(row.stage, "")
        if of in nominal and nominal[of] == row.causes:
            more[of] += 1
        else:
            kept.append(row)
    return kept, more


def tasks_in_words(row: WhyRow) -> str:
    """`12 of 36 tasks run`, `36 tasks run`."""
    run = plural(row.run, "task")
    return f"{row.run:,} of {row.run + row.reused:,} tasks run" if row.reused else f"{run} run{'s' * (row.run == 1)}"
