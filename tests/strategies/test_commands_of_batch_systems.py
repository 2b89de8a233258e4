"""Commands of batch systems are real programs, in the terminal of whoever started the run."""

from __future__ import annotations

import sys

from cenote.strategies._batch import ask, hand_in

OWN_GROUP = "import os; print(os.getpgrp() == os.getpid())"


def test_ctrl_c_in_the_terminal_cuts_no_command_of_a_batch_system_short() -> None:
    program = [sys.executable, "-c", OWN_GROUP]
    assert ask(program) == "True\n"
    assert hand_in(program, "", passing=()) == "True\n"
