"""A shared environment under the name that FAST-HEP gives it."""

from __future__ import annotations

from typing import ClassVar

from cenote.execution.environments.shared import SharedEnvironment


class SharedPrefix(SharedEnvironment):
    """The same as `shared`, which FAST-HEP spells like this."""

    example: ClassVar[str] = """
    execution:
      environment: {type: shared-prefix, prefix: /cvmfs/software.example.org/analysis/2026a}
    """
