"""Name the files of a stage."""

from __future__ import annotations

import os
import platform

from cenote.names import plain_name


def stage_name(stage: str) -> str:
    """As files are named after it."""
    return plain_name(stage)


def file_of_process(stage: str, kind: str) -> str:
    """`Slow/node7-4711.functions.txt`: processes of several machines leave theirs in one folder."""
    return f"{stage_name(stage)}/{plain_name(platform.node() or 'host')}-{os.getpid()}.{kind}"
