"""Environments say which software workers run, and how it gets to their nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from cenote.common import storage
from cenote.common.errors import Problem
from cenote.execution.launch import Launch
from cenote.execution.packing.archive import Progress
from cenote.language.plugins.settings import Plugin


class Environment(Plugin):
    """The software of workers. Its fields are the keys beside `type`."""

    _folder: Path = PrivateAttr(default_factory=Path)

    def beside(self, folder: Path) -> Self:
        """The same, with relative paths in its settings meant from this folder: the workflow's."""
        self._folder = folder
        return self

    def absolute_path(self, written: str) -> Path:
        """A path as the settings write it, made absolute."""
        return (self._folder / storage.expanded(written)).absolute()

    is_current: ClassVar[bool] = False
    """Whether it is the software that runs the driver, so that tasks may also run in the driver's own process."""

    @abstractmethod
    def complete(self, launch: Launch) -> Launch:
        """A launch whose `interpreter` is the Python of this environment on the node, with the variables, files and
        set-up lines that it needs. Called once for each pool; also where nothing was prepared, to show the job."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """What `provenance.json` records of it, beside its `type`: digests, versions. Nothing secret."""

    def prepare(self, progress: Progress) -> None:
        """Make ready what workers need: whatever takes long. Called once, before workers are asked for."""
        del progress

    def check(self) -> Iterable[Problem]:
        """What is wrong with it here and now. The first method that a run calls, before it writes anything."""
        return ()
