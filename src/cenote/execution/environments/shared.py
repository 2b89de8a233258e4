"""A shared environment: a prefix that every node sees under the same path, as on CVMFS or a file system of the site."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import PrivateAttr

from cenote.common import errors, software, storage
from cenote.common.errors import Problem
from cenote.execution.environments.support.packed import PresentEnvironment, digest_of
from cenote.execution.launch import Launch, shell_word
from cenote.execution.packing.software import Software, software_of


class SharedEnvironment(PresentEnvironment):
    """A conda prefix or a virtual environment that every node sees under the same path; nothing of it is sent.

    It is checked on this machine too, where that sees it. Cenote travels beside it if it has another version.
    """

    example: ClassVar[str] = """
    execution:
      environment: {type: shared, prefix: /cvmfs/software.example.org/analysis/2026a}
    """

    prefix: str
    """Its folder, with `bin/python` in it."""

    _known: Software | None = PrivateAttr(None)

    def complete(self, launch: Launch) -> Launch:
        """With its Python, activated as conda would."""
        return self._used_on_node(launch, [(f"cenote_use_prefix {shell_word((str(self._prefix),))}",)])

    def describe(self) -> Mapping[str, Any]:
        """Where it is, and what is in it; the digest is that of its list of packages."""
        known = self._software()
        if known is None:
            return {"prefix": str(self._prefix), **self._described()}
        facts = {"digest": digest_of(known), "python": known.python, "platform": known.platform}
        return {"prefix": str(self._prefix), **facts, "packages": known.packages, **self._described()}

    def check(self) -> Iterable[Problem]:
        """Whether it can work, where this machine sees it."""
        yield from super().check()
        prefix = self._prefix
        if not storage.is_folder(prefix):
            return
        if not storage.is_file(prefix / "bin" / "python"):
            hint = "`prefix` must be a folder with `bin/python` in it"
            yield Problem(errors.BAD_ENVIRONMENT, f"{prefix} has no Python: there is no bin/python", hint=hint)
            return
        if (reason := self._refusal()) is not None:
            hint = "install the versions that run this command, or run the command from that environment"
            yield Problem(errors.BAD_ENVIRONMENT, f"workers cannot use {prefix}: {reason}", hint=hint)

    @property
    def _prefix(self) -> Path:
        return self.absolute_path(self.prefix)

    def _software(self) -> Software | None:
        if self._known is None and storage.is_folder(self._prefix / "bin"):
            self._known = software_of(self._prefix)
        return self._known

    def _refusal(self) -> str | None:
        """Why workers would be turned away; Cenote itself travels, and what a venv has from its base is unknown."""
        there = self._software()
        if there is None or self._prefix == Path(sys.prefix):
            return None
        here = software.software_here(name for name in software.PACKAGES if name != "cenote")
        known = {"python": there.python or here["python"], **there.packages}
        return software.refusal(one for one in software.differences(here, known) if one.there is not None)
