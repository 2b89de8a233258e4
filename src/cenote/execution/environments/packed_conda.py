"""A packed conda prefix: whatever conda, mamba or micromamba installed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.execution.environments.support.packed_prefix import PackedPrefix


class PackedConda(PackedPrefix):
    """A conda prefix of this machine, packed and sent to the nodes, which need neither conda nor Python."""

    example: ClassVar[str] = """
    execution:
      environment: {type: packed-conda, prefix: ~/miniforge3/envs/analysis}
    """

    prefix: str | None = None
    """The folder of the prefix; without it, the one that is active (`$CONDA_PREFIX`)."""

    def _prefix(self) -> Path | None:
        written = self.prefix or os.environ.get("CONDA_PREFIX")
        return self.absolute_path(written) if written else None

    def _problems(self, prefix: Path) -> Iterator[Problem]:
        if not (prefix / "conda-meta").is_dir():
            is_venv = (prefix / "pyvenv.cfg").is_file()
            hint = "`type: packed-venv` packs virtual environments" if is_venv else "name another folder by `prefix`"
            yield Problem(errors.BAD_ENVIRONMENT, f"{prefix} is not a conda prefix: it has no conda-meta", hint=hint)

    def _activation(self, prefix: Path) -> tuple[str, ...]:
        del prefix  # what conda does is done for every conda prefix
        return ()
