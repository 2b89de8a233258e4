"""Find the name that somebody probably meant, and make names of columns, workers and files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable

_MEANT_OTHERWISE = re.compile(r"^[^\w]|[^\w .+=@-]")
"""Characters of a name that some program would read as something else; a dash in front looks like an option."""
_VARIABLES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[*]?")
_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words that YAML 1.1 took for true and false; in YAML 1.2 they are text."""
_LONGEST = 80
"""Characters: what is made of a name must still be the name of a file."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to this one, or None when none is close."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(_folded(candidate), candidate)
    if _folded(name) in by_folded:
        return by_folded[_folded(name)]
    from difflib import get_close_matches  # for those who misspell something

    matches = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.65)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for an error, or None."""
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else None


def meant_as_truth(word: str) -> str | None:
    """A hint for a text that was meant as true or false, or None."""
    meant = _TRUTHS.get(word.lower())
    return f"did you mean `{meant}`?" if meant else None


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names for a line of an error: sorted, and cut when there are too many to read."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:most])
    return f"{shown}, … ({len(ordered)} in all)" if len(ordered) > most else shown or "none"


def plain_name(name: str) -> str:
    """A name as a word that shells, batch systems and file systems leave as it is; most names are one already.

    What they give a meaning to becomes `_`, and a few letters then keep two such names apart: `50%` → `50_-5a0c`.
    """
    plain = _MEANT_OTHERWISE.sub("_", name).strip()[:_LONGEST]
    if plain == name:
        return name
    return f"{plain}-{hashlib.blake2b(name.encode(), digest_size=2).hexdigest()}"


def can_name_variables(pattern: str) -> bool:
    """Whether it names an environment variable, or with a `*` at its end all that begin so."""
    return _VARIABLES.fullmatch(pattern) is not None


def column_name(name: str, known: Container[str] = ()) -> str:
    """The column that people mean by `Muon.pt`: `Muon_pt`, unless one is called as it is written."""
    return name if name in known else name.replace(".", "_")


def worker_name(pool: str, number: int) -> str:
    """Of a worker of this pool, and of its files: `gpu-1`."""
    return f"{plain_name(pool)}-{number}"


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
