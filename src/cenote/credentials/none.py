"""No credential: for pools of a run whose other pools have some."""

from __future__ import annotations

from typing import ClassVar

from cenote.credentials.interface import Credential
from cenote.launch import Launch


class NoCredential(Credential):
    """Sends nothing: data is public, or nodes have what they need."""

    travels: ClassVar[bool] = False
    example: ClassVar[str] = """
    execution:
      credentials: none
    """

    def complete(self, launch: Launch) -> Launch:
        """The launch as it is."""
        return launch
