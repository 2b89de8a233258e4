"""Make the environment of an instance: the agent's own without what is ours, the constants, and who it is.

The agent's was made as that of every worker is (`launch.py`): nothing of the shell that started the service comes along
unless its pool passes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cenote.client.constants import OWN, RESERVED, why_no_constant
from cenote.service.protocol import Start
from cenote.worker.process.lifetime import GRACE


class BadConstantError(ValueError):
    """A constant that cannot be an environment variable, in words."""


def variables_of(start: Start, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Raises BadConstantError."""
    own = dict(zip(OWN, (str(start.instance), str(start.instance_count), start.job), strict=True))
    for name, value in start.constants.items():
        if reason := why_no_constant(name, value):
            raise BadConstantError(reason)
    if start.grace is not None:
        own[GRACE] = str(start.grace)
    kept = {name: value for name, value in inherited.items() if not name.startswith(RESERVED)}
    return {**kept, **start.constants, **own}
