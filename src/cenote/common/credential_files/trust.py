"""Say which servers may be believed: those of this machine's authorities, and those of the grid's."""

from __future__ import annotations

import ssl
from pathlib import Path


def trusting(authorities: Path | None) -> ssl.SSLContext:
    """For connections to servers; their names are checked too."""
    context = ssl.create_default_context()
    if authorities is not None:
        context.load_verify_locations(capath=authorities)
    return context
