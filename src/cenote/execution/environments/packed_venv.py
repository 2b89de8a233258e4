"""A packed virtual environment: its packages travel, and the Python that it was made with must be on the nodes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from cenote.common import errors, storage
from cenote.common.errors import Problem
from cenote.execution.environments.support.packed_prefix import PackedPrefix
from cenote.execution.packing.software import venv_settings
from cenote.execution.start_failures import StartFailure

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class PackedVenv(PackedPrefix):
    """A virtual environment of this machine, packed and sent to the nodes.

    Only its packages are in there. Each node must have the Python that it was made with, under the same path: on CVMFS,
    on a shared file system, or the system's own. Where it is not, or is another version, the worker does not start.
    """

    example: ClassVar[str] = """
    execution:
      environment: {type: packed-venv, prefix: .venv}
    """

    prefix: str | None = None
    """The folder of the virtual environment; without it, the one that is active (`$VIRTUAL_ENV`), or that this command
    runs in."""

    def _prefix(self) -> Path | None:
        own = sys.prefix if sys.prefix != sys.base_prefix else None
        written = self.prefix or os.environ.get("VIRTUAL_ENV") or own
        return self.absolute_path(written) if written else None

    def _problems(self, prefix: Path) -> Iterator[Problem]:
        written = venv_settings(prefix)
        if not written:
            is_conda = (prefix / "conda-meta").is_dir()
            hint = "`type: packed-conda` packs conda prefixes" if is_conda else "name another folder by `prefix`"
            words = f"{prefix} is not a virtual environment: it has no pyvenv.cfg"
            yield Problem(errors.BAD_ENVIRONMENT, words, hint=hint)
        elif written.get("include-system-site-packages", "").lower() == "true":
            yield Problem(
                errors.BAD_ENVIRONMENT,
                f"{prefix} also uses the packages of {written.get('home', 'its base Python')}, which are not packed",
                hint="make it without --system-site-packages, and install everything there",
            )
        elif not (prefix / "bin" / "python").exists():
            words = f"{prefix}: the Python that it was made with is gone: {written.get('home', '')}"
            yield Problem(errors.BAD_ENVIRONMENT, words, hint="make the virtual environment anew")

    def _activation(self, prefix: Path) -> tuple[str, ...]:
        """With a check of the node's Python: packages for another version could be imported there, and break later."""
        base = storage.resolved(prefix / "bin" / "python")
        version = next((found.name.removeprefix("python") for found in prefix.glob("lib/python3.*")), "")
        words = f"cenote: the environment needs {base}, Python {version}, and the node has Python $cenote_version there"
        otherwise = f'{{ echo "{words}" >&2; exit {StartFailure.BROKEN_PYTHON.value.code}; }}'
        return (
            'export VIRTUAL_ENV="$CENOTE_HERE"',
            f'cenote_version=$("$CENOTE_HERE/bin/python" -I -S -c {shlex.quote(_VERSION)})',
            f'[ "$cenote_version" = {version} ] || {otherwise}',
            "unset cenote_version",
        )
