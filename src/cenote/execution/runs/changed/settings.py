"""Say in words how settings differ: cuts by what they ask, lists by the names of their entries, all else by its key."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

# Show two values that differ in a few words: `60 → 50`, `"pt > 20" → "pt > 25"`.


_MOST = 48
"""Characters of a value that is shown whole."""
_AROUND = 12
"""Characters of what is equal that are shown beside what is not, where a text is too long."""
_GAP = re.compile(r"\s")


def as_mapping(value: Any) -> Any:  # Any: plain data
    """Where the order of a mapping counts, identities have it as a list of pairs: the mapping; all else as it is."""
    if not isinstance(value, list | tuple) or not value:
        return value
    if not all(isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], str) for one in value):
        return value
    found = dict(value)
    return found if len(found) == len(value) else value


def shown(value: Any) -> str:  # Any: plain data
    """As a person would write it, shortened."""
    return _cut_off(_written(value))


def shown_pair(before: Any, after: Any) -> str:  # Any: plain data
    """`60 → 50`; of long texts, the part that differs."""
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _MOST:
        before, after = _parts_that_differ(before, after)
    return f"{shown(before)} → {shown(after)}"


def _written(value: Any) -> str:  # Any: plain data
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(inner) for inner in value) + "]"
    return str(value)


def _cut_off(text: str) -> str:
    most = _MOST + 2 * _AROUND + 4  # room for a part of a text, and the dots around it
    if len(text) <= most:
        return text
    end = text[-1] if text[-1] in '"]}' else ""
    return f"{text[: most - 2]}…{end}"


def _parts_that_differ(before: str, after: str) -> tuple[str, str]:
    """Both without most of what they begin and end with alike, from the beginning of a word on."""
    start = _alike(before, after)
    most = min(len(before), len(after)) - start
    end = min(most, _alike(before[::-1], after[::-1]))
    start, end = max(0, start - _AROUND), max(0, end - _AROUND)
    start -= _to_a_gap(before[:start][::-1])
    end -= _to_a_gap(before[len(before) - end :])
    return _part(before, start, end), _part(after, start, end)


def _alike(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _to_a_gap(text: str) -> int:
    """How many characters there are until a word ends; 0 where that is far."""
    found = _GAP.search(text[:_AROUND])
    return found.start() if found else 0


def _part(text: str, start: int, end: int) -> str:
    found = text[start : len(text) - end]
    return ("… " if start else "") + found.strip() + (" …" if end else "")


_CONDITIONS = ("expr", "reduce", "all_of", "any_of", "All", "Any")
"""A mapping with one of these, and nothing else that counts, is a cut."""
_SELECTION = "selection"
"""Below this key, texts are cuts."""
_NAMES = ("name", "id", "output", "label")
"""What an entry of a list is known by."""


class _Cut(str):
    """A condition in one line."""

    __slots__ = ()


def changed_settings(before: Any, after: Any) -> tuple[str, ...]:  # Any: plain data, as settings are dumped
    """One phrase for each difference, in the order of the settings: `cut changed, "pt > 20" → "pt > 25"`."""
    return tuple(_differences((), _plain(before), _plain(after)))


def _plain(value: Any, *, cuts: bool = False) -> Any:  # Any: plain data
    """With cuts as texts, mappings as such, and without keys that say nothing."""
    value = as_mapping(value)
    if isinstance(value, Mapping):
        given = {str(key): inner for key, inner in value.items() if inner is not None}
        if (cut := _as_cut(given)) is not None:
            return cut
        return {
            key: _plain(inner, cuts=key == _SELECTION or (cuts and key != "parents")) for key, inner in given.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(inner, cuts=cuts) for inner in value]
    return _Cut(value) if cuts and isinstance(value, str) else value


def _as_cut(given: Mapping[str, Any]) -> _Cut | None:
    forms = [key for key in _CONDITIONS if key in given]
    if len(forms) != 1 or given.keys() - {forms[0], "label"}:
        return None
    [form], inner = forms, given[forms[0]]
    if form == "expr" and isinstance(inner, str):
        return _Cut(inner)
    if form == "reduce" and isinstance(inner, Mapping):
        return _Cut(f"{inner.get('op')}({inner.get('over')})")
    if isinstance(inner, list | tuple):
        return _Cut(f"{form[:3].lower()}({', '.join(str(_plain(one, cuts=True)) for one in inner)})")
    return None


def _differences(path: tuple[str, ...], before: Any, after: Any) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) or isinstance(after, dict):  # an empty one may be written as a list
        before, after = before or {}, after or {}
    if isinstance(before, _Cut) and isinstance(after, _Cut):
        yield f"cut{_group(path)} changed, {shown_pair(before, after)}"
    elif isinstance(before, dict) and isinstance(after, dict):
        yield from _of_mappings(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(path, before, after)
    else:
        yield f"{_words(path)} changed, {shown_pair(before, after)}"


def _of_mappings(path: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*after, *before)):
        if key not in before:
            yield f"{_words((*path, key))} added, {shown(_said(after[key]))}"
        elif key not in after:
            yield f"{_words((*path, key))} removed, was {shown(_said(before[key]))}"
        else:
            yield from _differences((*path, key), before[key], after[key])


def _said(value: Any) -> Any:  # Any: plain data
    """Of a column its expression alone: its name stands before it."""
    return value["expr"] if isinstance(value, dict) and value.keys() <= {"name", "expr"} and "expr" in value else value


def _of_lists(path: tuple[str, ...], before: list[Any], after: list[Any]) -> Iterator[str]:
    if all(isinstance(one, _Cut) for one in (*before, *after)):
        yield from _of_cuts(path, before, after)
    elif (named := _by_name(before)) is not None and (now := _by_name(after)) is not None:
        yield from _of_mappings(path, named, now)
        if list(named) != list(now) and named.keys() == now.keys():
            yield f"order of {_words(path)} changed"
    elif all(isinstance(one, str) for one in (*before, *after)):
        yield from _of_texts(_words(path), before, after)
    elif len(before) == len(after) and any(isinstance(one, dict | list) for one in before):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences((*path, str(number)), old, new)
    else:
        yield f"{_words(path)} changed, {shown_pair(before, after)}"


def _of_cuts(path: tuple[str, ...], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    where = _group(path)
    if sorted(before) == sorted(after):
        yield f"order of cuts{where} changed"
        return
    for _, start, end, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        old, new = before[start:end], after[first:last]
        if old == new:
            continue
        for one, other in zip(old, new, strict=False):
            yield f"cut{where} changed, {shown_pair(one, other)}"
        yield from (f"cut{where} removed, {shown(one)}" for one in old[len(new) :])
        yield from (f"cut{where} added, {shown(one)}" for one in new[len(old) :])


def _of_texts(words: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    if sorted(before) == sorted(after):
        yield f"order of {words} changed"
    elif set(before) <= set(after) or set(before) >= set(after):
        added, removed = [one for one in after if one not in before], [one for one in before if one not in after]
        more, verb = (added, "with") if added else (removed, "without")
        yield f"{words} {verb} {', '.join(map(shown, more))}" if more else f"{words} changed"
    else:
        yield f"{words} changed, {shown_pair(before, after)}"


def _by_name(entries: Sequence[Any]) -> dict[str, Any] | None:
    """Name → entry, where every entry has one of its own."""
    for key in _NAMES:
        if entries and all(isinstance(one, dict) and isinstance(one.get(key), str) for one in entries):
            found = {one[key]: one for one in entries}
            return found if len(found) == len(entries) else None
    return {} if not entries else None


def _group(path: tuple[str, ...]) -> str:
    """` of Tight`: the group that a cut stands in, where it is not the usual one."""
    below = path[path.index(_SELECTION) + 1 :] if _SELECTION in path else path
    named = [one for one in below if one not in ("steps", "cuts", "All", _SELECTION) and not one.isdigit()]
    return f" of {named[0]}" if named and _SELECTION in path else ""


def _words(path: tuple[str, ...]) -> str:
    if not path:
        return "settings"
    if path[-2:] and len(path) > 1 and path[-2] == _SELECTION:
        return f"group of cuts {path[-1]}"
    if len(path) >= 3 and path[-3] == "variables" and path[-1] == "expr":
        return f"column {path[-2]}"
    if len(path) == 2 and path[0] == "variables":
        return f"column {path[1]}"
    return ".".join(path)
