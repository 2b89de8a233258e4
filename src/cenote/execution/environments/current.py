"""The current environment: workers run the Python that runs this command."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from cenote.common.software import installed_packages
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import Launch, words


class CurrentEnvironment(Environment):
    """The Python that runs this command; every node must see it under the same path."""

    is_current: ClassVar[bool] = True
    example: ClassVar[str] = """
    execution:
      environment: current
    """

    def complete(self, launch: Launch) -> Launch:
        """With this very interpreter."""
        return replace(launch, interpreter=words(sys.executable))

    def describe(self) -> Mapping[str, Any]:
        """Its path and version, and its packages."""
        return {"python": sys.executable, "version": sys.version.split()[0], "packages": installed_packages()}
