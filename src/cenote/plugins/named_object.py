"""Import what somebody names: `module:object`."""

from __future__ import annotations

import importlib
from typing import Any

from cenote import errors
from cenote.signals import Interrupted


def named_object(target: str, what: str, *, if_absent: str | None = None) -> Any:  # Any: whatever it is
    """What is called so. Raises `bad-plugin`, with the hint where a module is not there; `what` begins the message."""
    module_name, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Interrupted:
        raise
    except BaseException as problem:  # a module may raise anything, SystemExit included
        words = f"{what} ({target}) cannot be imported: {errors.words_of(problem)}"
        hint = if_absent if isinstance(problem, ImportError) else None
        raise errors.error(errors.BAD_PLUGIN, words, hint=hint) from problem
    return found
