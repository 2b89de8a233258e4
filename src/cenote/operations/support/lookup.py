"""What operations share that look something up in a file beside the workflow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import PrivateAttr

from cenote.operations.interface import Operation
from cenote.plugins.resources import workflow_file

Contents = TypeVar("Contents")


class LookupOperation(Operation, Generic[Contents]):
    """An operation with one file: the plan checks it, and each worker reads it once."""

    file: str
    """The file, beside the workflow."""

    _contents: Contents | None = PrivateAttr(default=None)

    @abstractmethod
    def read(self, path: Path) -> Contents:
        """What the file holds. Raises `bad-input` where it cannot serve."""

    @property
    def contents(self) -> Contents:
        """What it holds, read the first time."""
        if self._contents is None:
            self._contents = self.read(workflow_file(self.file))
        return self._contents

    def depends_on_files(self) -> Collection[str]:
        """The file."""
        return (self.file,)

    def check_files(self, files: Mapping[str, Path]) -> None:
        """It can be read, and holds what the settings ask for."""
        for path in files.values():
            self.read(path)

    def prepare(self) -> None:
        """Read it."""
        self._contents = self.read(workflow_file(self.file))
