"""A program looks for garbage less often as it starts, and as usual, but not at what it imported, when it works."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
from cenote import garbage
usual = gc.get_threshold()
garbage.look_again()
print(gc.get_threshold() == usual, gc.get_freeze_count() == 0)
garbage.leave_alone()
print(gc.get_threshold()[0] > usual[0])
garbage.look_again()
print(gc.get_threshold() == usual, gc.get_freeze_count() > 0)
"""


def test_programs_start_without_looking_and_then_look_as_usual() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["True True", "True", "True True"]
