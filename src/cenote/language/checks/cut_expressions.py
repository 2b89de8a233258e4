"""Find expressions that YAML cut at their commas: `{x: where(a > 2, 1, 0)}` holds the keys `x`, `1` and `0)`."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.language.yaml.source import Located
from cenote.values import dataclass

_MOST = 30
"""Commas of one expression that are looked at."""


@dataclass(frozen=True, eq=False)
class CutExpression:
    """An expression of which only the beginning stands where it was meant to."""

    within: Located
    """The mapping or list that has the pieces."""
    first: Located
    text: str
    """As it was meant."""

    def concerns(self, node: Located) -> bool:
        """Whether a value is one of the pieces, or what holds them."""
        return node is self.within or any(node is one for one in (*self.within.mapping.values(), *self.within.items))


def cut_expressions(node: Located) -> Iterator[CutExpression]:
    """Those in a part of the document."""
    waiting = [node]
    while waiting:
        holder = waiting.pop()
        pieces = _pieces(holder)
        for number, (child, _) in enumerate(pieces):
            if child.text is not None and _open(child.text) > 0:
                rest = _up_to_the_end(child.text, [text for _, text in pieces[number + 1 : number + 1 + _MOST]])
                if rest is not None:
                    yield CutExpression(holder, child, ", ".join([child.text, *rest]))
        waiting += [child for child, _ in reversed(pieces)]


def _pieces(node: Located) -> list[tuple[Located, str | None]]:
    """What a mapping or a list holds, with the text that it would be the rest of; None where it cannot be one."""
    if isinstance(node.value, dict):
        return [(child, str(key) if child.value is None else None) for key, child in node.mapping.items()]
    return [(child, None if isinstance(child.value, dict | list) else str(child.value)) for child in node.items]


def _up_to_the_end(text: str, following: list[str | None]) -> list[str] | None:
    """What closes all parentheses; None where nothing does."""
    found: list[str] = []
    left = _open(text)
    for piece in following:
        if piece is None:
            return None
        found.append(piece)
        left += _open(piece)
        if left == 0:
            return found
    return None


def _open(text: str) -> int:
    return text.count("(") - text.count(")")
