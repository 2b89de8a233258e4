"""Environments say which software workers run, and how it gets to their nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from cenote.errors import Problem
from cenote.launch import Launch
from cenote.plugins.settings import Plugin


class Environment(Plugin):
    """The software of workers. Its fields are the keys beside `type`."""

    is_current: ClassVar[bool] = False
    """Whether it is the software that runs the driver, so that tasks may also run in the driver's own process."""

    @abstractmethod
    def complete(self, launch: Launch) -> Launch:
        """A launch whose `interpreter` is the Python of this environment on the node, with the variables, files and
        set-up lines that it needs. Called once for each pool; whatever takes long belongs here, not in `check`."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """What `provenance.json` records of it, beside its `type`: digests, versions. Nothing secret."""

    def check(self) -> Iterable[Problem]:
        """What is wrong with it here and now. The first method that a run calls, before it writes anything."""
        return ()
