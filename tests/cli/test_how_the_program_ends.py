"""The program ends at once where only its own code ran, and does all that is due at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import atexit, sys
from cenote.cli.ending import end
class Taken:
    def __del__(self):
        print("taken apart")
kept = Taken()
atexit.register(print, "registered")
{before}
print("said", end="")
end(7)
"""


def ended(before: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 7, done.stderr
    return done


def said(before: str = "") -> list[str]:
    return ended(before).stdout.split("\n")


def test_what_is_said_and_registered_is_done_and_nothing_taken_apart() -> None:
    assert said() == ["saidregistered", ""]


def test_threads_end_as_usual() -> None:
    a_thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    assert said(a_thread) == ["saidregistered", "taken apart", ""]


HURRY = "import time, threading; from cenote.cli import ending; ending.PATIENCE = 0.1; "
LEFT = {
    "threads mine": "threading.Thread(target=threading.Event().wait, name='mine').start()",
    "what it registered for the end": "atexit.register(threading.Event().wait)",
}


@pytest.mark.parametrize("what", LEFT)
def test_code_of_others_that_never_ends_does_not_keep_the_program(what: str) -> None:
    done = ended(HURRY + "threading.Thread(target=threading.Event().wait, daemon=True).start(); " + LEFT[what])
    assert done.stderr == f"cenote: other code still runs in this process, which ends now: {what}\n"
    assert done.stdout.startswith("said")


@pytest.mark.parametrize("watch", ["setprofile", "settrace"])
def test_profilers_and_debuggers_see_the_usual_end(watch: str) -> None:
    code = f"import sys\nfrom cenote.cli import ending\nsys.{watch}(print)\nfound = not ending._is_watched()\n"
    ask = [sys.executable, "-c", f"{code}sys.{watch}(None)\nsys.exit(found)"]
    assert subprocess.run(ask, capture_output=True, timeout=60, check=False).returncode == 0


def test_code_of_others_ends_as_usual(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("import cenote\n\n@cenote.operation('own.twice')\ndef twice(x):\n    return 2 * x\n")
    ours = "from cenote.language.plugins import registry"
    load = f"{ours}; from pathlib import Path; registry.add_file(Path({str(own)!r}))"
    assert said(ours) == ["saidregistered", ""]
    assert said(load) == ["saidregistered", "taken apart", ""]
