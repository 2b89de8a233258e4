"""Change settings one value at a time, and write them in other ways, to see what identities of operations tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cenote.language.plugins.quantities import NormalForm
from cenote.language.plugins.settings import Settings

Place = tuple[str | int, ...]

_INSTEAD_OF_NOTHING = (
    *(True, 3, 2.5, "MET_pt", "HLT", "speed", "int32", "Muon"),
    *(["MET_pt"], ["MET_pt > 3"], [["a", ["MET_pt > 3"]]], {"a": "MET_pt"}, {"datasets": ["data"]}, {"by": "MET_pt"}),
    *({"op": "any", "over": "HLT"}, {"weights": {"up": "weight * 2"}}, {"removed_count": False}),
)
"""What may stand where nothing is, in one setting or another."""


def _unchanged(value: Any) -> Any:
    return value


AS_WRITTEN = NormalForm(shown=_unchanged, in_order=_unchanged)
"""Everything as it is."""
CARELESS = NormalForm(lambda text: f" ( {text} ) ", shown=_unchanged, in_order=_unchanged)
"""With needless spaces and parentheses in expressions."""


def written(settings: Settings, form: NormalForm) -> dict[str, Any]:
    """Settings as one would write them, defaults included."""
    return form.of(settings)


def turned_round(value: Any) -> Any:
    """The same with the keys of all mappings in reverse order."""
    if isinstance(value, Mapping):
        return {key: turned_round(value[key]) for key in reversed(value)}
    return [turned_round(one) for one in value] if isinstance(value, list) else value


def changes(settings: Mapping[str, Any], words: frozenset[str]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Settings with one value changed, and where; many are none that an operation takes. `words` are its own."""
    for place, value in _places(settings, ()):
        for other in _others(value, words):
            yield place, _with(settings, place, other)


def words_in(schema: Any) -> frozenset[str]:
    """The words that a JSON Schema allows somewhere."""
    if isinstance(schema, Mapping):
        own = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
        found = frozenset(word for word in own if isinstance(word, str))
        return found.union(*(words_in(inner) for inner in schema.values()))
    return frozenset().union(*(words_in(one) for one in schema)) if isinstance(schema, list) else frozenset()


def _places(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if place and (not isinstance(value, Mapping | list) or len(value) < 2):
        yield place, value
    for key, inner in items:
        yield from _places(inner, (*place, key))


def _others(value: Any, words: frozenset[str]) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value * 1.5 + 0.25)
        case str():
            yield from (f"{value}2", f"({value}) * 2", f"({value}) > 7", *sorted(words - {value}))
        case _:
            yield from (one for one in (*_INSTEAD_OF_NOTHING, *sorted(words)) if one != value)


def _with(value: Any, place: Place, other: Any) -> Any:
    if not place:
        return other
    if isinstance(value, Mapping):
        return {key: _with(inner, place[1:], other) if key == place[0] else inner for key, inner in value.items()}
    return [_with(inner, place[1:], other) if key == place[0] else inner for key, inner in enumerate(value)]
