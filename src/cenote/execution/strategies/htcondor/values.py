"""Write values as HTCondor's submit descriptions and ClassAds read them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cenote.execution.launch import Raw, Word

REPLACED = re.compile(r"\$\(DOLLAR\)(?:\$\(DOLLAR\)\(|\(DOLLAR\))", re.IGNORECASE)
"""`$$(` and `$(DOLLAR)` as `plain` writes them, which HTCondor (23.9) replaces nevertheless: by an attribute of the
machine, and by a dollar. There is no way to write them."""


def plain(text: str) -> str:
    """Text that stays as it is in a submit description."""
    return text.replace("$", "$(DOLLAR)")


def quoted_words(words: Sequence[Word]) -> str | None:
    """Words in HTCondor's newer quoting, which keeps spaces and quotes; None for none."""
    return '"' + " ".join(_quoted(word) for word in words) + '"' if words else None


def _quoted(word: Word) -> str:
    """The name of a worker that HTCondor fills in may have spaces too."""
    text = "".join(part.text if isinstance(part, Raw) else plain(str(part)).replace('"', '""') for part in word)
    if text and not re.search(r"[\s']", text) and not any(isinstance(part, Raw) for part in word):
        return text
    return "'" + text.replace("'", "''") + "'"


def remapped(name: str, folder: str) -> str:
    """A file that comes back into this folder."""
    escaped = re.sub(r"([\\;=])", r"\\\1", plain(folder))
    return f'"{name} = {escaped}{name}"'


def literal(value: str | bool | float) -> str:
    """A value as a ClassAd writes it."""
    return plain(json.dumps(value, ensure_ascii=False))
