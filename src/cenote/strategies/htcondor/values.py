"""Write values as HTCondor's submit descriptions and ClassAds read them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cenote.strategies.support.alike import WORKER


def plain(text: str) -> str:
    """Text that stays as it is in a submit description."""
    return text.replace("$", "$(DOLLAR)")


def quoted_words(words: Sequence[str]) -> str | None:
    """Words in HTCondor's newer quoting, which keeps spaces and quotes; None for none.

    The name of a worker that is still to be filled in may have spaces too.
    """
    if not words:
        return None
    doubled = [plain(word).replace('"', '""') for word in words]
    quoted = [
        "'" + word.replace("'", "''") + "'" if not word or re.search(rf"[\s'{WORKER}]", word) else word
        for word in doubled
    ]
    return '"' + " ".join(quoted) + '"'


def remapped(name: str, target: str) -> str:
    """A file that comes back under another name."""
    escaped = re.sub(r"([\\;=])", r"\\\1", plain(target))
    return f'"{name} = {escaped}"'


def literal(value: str | bool | float) -> str:
    """A value as a ClassAd writes it."""
    return json.dumps(value)
