"""Give awkward to those who meet the first list: it is imported then.

`from cenote.jagged import ak` costs nothing. A workflow of plain numbers never pays for awkward, and planning does not.
"""

from __future__ import annotations

import sys
from typing import Any

from cenote.lean_imports import later

_NAME = "awkward"
ak = later(_NAME)
"""The module awkward."""


def is_awkward(value: Any) -> bool:  # Any: any column
    """Whether it is an array of awkward; where nobody has imported that, nothing is."""
    return _NAME in sys.modules and isinstance(value, ak.Array)
