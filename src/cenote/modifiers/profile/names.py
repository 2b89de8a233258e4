"""Name the files of a stage."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from cenote.names import plain_name


def stage_name(stages: Sequence[str]) -> str:
    """As files are named after a stage, or after those that are compiled together: `Slow`, `Pairs+Hardest+Pt`."""
    return plain_name("+".join(stages))


def file_of_process(stages: Sequence[str], kind: str) -> str:
    """`Slow/node7-4711.functions.txt`: processes of several machines leave theirs in one folder."""
    return f"{stage_name(stages)}/{plain_name(platform.node() or 'host')}-{os.getpid()}.{kind}"
