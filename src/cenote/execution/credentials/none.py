"""No credential: for pools of a run whose other pools have some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from cenote.common.errors import Problem
from cenote.execution.credentials.interface import Credential


class NoCredential(Credential):
    """Sends nothing: data is public, or nodes have what they need."""

    example: ClassVar[str] = """
    execution:
      credentials: none
    """

    def check(self, now: float) -> Iterable[Problem]:
        """Nothing can be wrong."""
        del now
        return ()

    def facts(self) -> None:
        """There is none."""

    def read(self) -> None:
        """Nothing is sent."""

    def variables(self) -> Mapping[str, str | None]:
        """None is set."""
        return {}
