"""Name the accounts of this machine."""

from __future__ import annotations

import pwd


def user_name(user: int) -> str:
    """Of an account; its number where it has no name here."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
