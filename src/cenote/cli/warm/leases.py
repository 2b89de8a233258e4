"""Tell whether a command may be one for a service, from as little as possible: every run asks."""

from __future__ import annotations

import os
import re

from cenote.cli.options import LEASING, STDIN, Choices
from cenote.common import signals
from cenote.service.client.constants import JOB

_SAYS_SO = re.compile(rb"^[^#\n]*\bstrategy\s*:\s*[\"']?service\b", re.MULTILINE)


def may_lease(choices: Choices) -> bool:
    """Whether the run seems to have leases as its workers. That is known for sure when the workflow is read, with all
    that belongs to it, which takes as long as the rest; and a run without leases may be driven there as well."""
    if choices.strategy is not None or choices.file == STDIN:
        return choices.strategy == LEASING
    try:
        return _SAYS_SO.search(choices.file.read_bytes()) is not None
    except OSError:
        return False


def was_typed() -> bool:
    """Whether this process is a command that was typed, and not a driver that a service runs."""
    return signals.is_program() and JOB not in os.environ
