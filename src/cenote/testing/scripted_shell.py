"""Play a batch system in tests: commands get the answers of a script, also late, wrong or none at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from cenote.common import shell
from cenote.common.shell import FinishedProcess
from cenote.common.values import dataclass


@dataclass(frozen=True)
class Reply:
    """What a command answers."""

    out: str = ""
    err: str = ""
    code: int = 0
    hangs: bool = False
    missing: bool = False
    interrupted: bool = False


HANGS = Reply(hangs=True)
"""No answer within the time limit."""
MISSING = Reply(missing=True)
"""There is no such program."""
INTERRUPTED = Reply(interrupted=True)
"""Somebody presses Ctrl-C while it is at work."""


def complains(words: str, code: int = 1) -> Reply:
    """The command fails with these words."""
    return Reply(err=words, code=code)


@dataclass
class ScriptedShell:
    """Answers commands by their first word; what was typed can be read afterwards.

    The answers of a program are used up in order, and the last one is given again and again.
    """

    answers: dict[str, list[Reply]]
    typed: list[tuple[str, ...]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    """What was given to each command on its standard input."""

    def says(self, program: str, *replies: Reply | str) -> None:
        """From now on, this is what the program answers."""
        self.answers[program] = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]

    def times(self, program: str) -> int:
        """How often a program was called."""
        return sum(words[0] == program for words in self.typed)

    def run_command(
        self,
        command: Sequence[str],
        *,
        seconds: float,
        folder: Path | None = None,
        given: str = "",
        hears_ctrl_c: bool = True,
    ) -> FinishedProcess:
        """Takes the place of the real one."""
        del folder, hears_ctrl_c
        self.typed.append(tuple(command))
        self.inputs.append(given)
        script = self.answers.get(command[0], [MISSING])
        reply = script.pop(0) if len(script) > 1 else script[0]
        if reply.hangs:
            raise TimeoutError(f"{command[0]} did not answer within {seconds:g} s")
        if reply.interrupted:
            raise KeyboardInterrupt
        if reply.missing:
            raise FileNotFoundError(f"no such program: {command[0]}")
        return FinishedProcess(list(command), reply.code, reply.out, reply.err)


@contextmanager
def scripted_shell(**answers: Reply | str | Sequence[Reply | str]) -> Iterator[ScriptedShell]:
    """Within, `cenote.common.shell.run_command` is played: `scripted_shell(squeue=HANGS, sbatch="17\\n")`."""
    played = ScriptedShell({})
    for program, replies in answers.items():
        played.says(program, *([replies] if isinstance(replies, str | Reply) else replies))
    real: Callable[..., FinishedProcess] = shell.run_command
    shell.run_command = played.run_command
    try:
        yield played
    finally:
        shell.run_command = real


class AtOnce(Executor):
    """Runs whatever it is given before it returns: for tests whose clock stands still."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as problem:  # whatever it is, it belongs to the future
            future.set_exception(problem)
        return future
