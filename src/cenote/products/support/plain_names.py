"""Make names of letters, digits and `_` that stay different: what ROOT and programs for statistics take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

_WORDS = {"+": "plus", "-": "minus", "*": "star", ".": "dot", "/": "over", "'": "prime", "~": "tilde", "!": "not"}


def plain_names(names: Iterable[Sequence[str]]) -> dict[tuple[str, ...], str]:
    """Names in parts → plain ones, the parts joined by `_`, other characters as `_`.

    Those that would fall together have their characters in words (`W+` becomes `Wplus`) or, where that is not enough,
    a number at the end; one that is plain as it is keeps its name.
    """
    usual = {tuple(parts): _plain(parts) for parts in names}
    many = Counter(usual.values())
    found = {parts: name for parts, name in usual.items() if many[name] == 1 or name == "_".join(parts)}
    if len(set(found.values())) < len(found):  # `a_b` and `c`, `a` and `b_c`
        found = {parts: name for parts, name in usual.items() if many[name] == 1}
    taken = set(found.values())
    for parts in usual:
        if parts not in found:
            found[parts] = next(name for name in _candidates(parts) if name not in taken)
            taken.add(found[parts])
    return {parts: found[parts] for parts in usual}


def _plain(parts: Sequence[str]) -> str:
    return "_".join(re.sub(r"\W", "_", part) for part in parts)


def _candidates(parts: Sequence[str]) -> Iterator[str]:
    words = ["".join(_WORDS.get(letter, letter) for letter in part) for part in parts]
    yield _plain(words)
    yield from (f"{_plain(words)}_{number}" for number in count(2))
