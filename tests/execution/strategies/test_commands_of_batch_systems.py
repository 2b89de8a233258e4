"""Commands of batch systems are real programs, in the terminal of whoever started the run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cenote.common.errors import BATCH_SYSTEM, CenoteError
from cenote.execution.strategies.support.batch import ask, hand_in

OWN_GROUP = "import os; print(os.getpgrp() == os.getpid())"


def test_ctrl_c_in_the_terminal_cuts_no_command_of_a_batch_system_short() -> None:
    program = [sys.executable, "-c", OWN_GROUP]
    assert ask(program) == "True\n"
    assert hand_in(program, "", passing=()) == "True\n"


def test_a_program_that_cannot_be_started_now_is_tried_again_later(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text("nobody may execute it")
    with pytest.raises(CenoteError) as caught:
        hand_in([str(tmp_path / "sbatch")], "", passing=())
    assert caught.value.problems[0].kind is BATCH_SYSTEM
