"""Turn an exception on a worker into words: whose fault, where in the data, where in the user's code."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Literal

import msgspec

from cenote.common.errors import CHANGED_INPUT, CenoteError, printable, shortened, words_of
from cenote.common.signals import Interrupted
from cenote.engine.messages import FailureInfo
from cenote.planning.plan import Partition, Step

_WHICH_VARIABLES = (
    " is not an environment variable of this worker, which gets some of your shell's: name it under "
    "`execution.pass_variables`"
)
_OURS = str(Path(__file__).parents[2])


class TaskFailure(Exception):  # noqa: N818  # carries the information; not an error of its own
    """A failure that is told already."""

    def __init__(self, info: FailureInfo) -> None:
        super().__init__(info.message)
        self.info = info


class ModifierFailure(Exception):  # noqa: N818  # carries what was raised; not an error of its own
    """Something that a modifier raised, and not the stage that it is around."""

    def __init__(self, modifier: str, problem: BaseException) -> None:
        super().__init__(words_of(problem))
        self.modifier, self.problem = modifier, problem
        self.around = ""
        """The stages that it is around, where these are several."""


def failure_of(
    problem: BaseException, *, stage: str | None = None, partition: Partition | None = None, reading: bool = False
) -> FailureInfo:
    """What to tell of an exception: ours without a traceback, the user's with the part that is the user's."""
    if isinstance(problem, ModifierFailure):
        info = failure_of(problem.problem, stage=stage, partition=partition, reading=reading)
        words = f"modifier '{problem.modifier}': {info.message}"
        words += f"; it is around {problem.around}" if problem.around else ""
        return msgspec.structs.replace(info, message=words, modifier=problem.modifier)
    cause: Literal["error", "bad_input", "changed_input", "oom"] = "bad_input" if reading else "error"
    known = problem.problems[0].kind.name if isinstance(problem, CenoteError) else None
    if isinstance(problem, MemoryError):
        cause = "oom"
    elif known == CHANGED_INPUT.name:
        cause = "changed_input"
    return FailureInfo(
        cause=cause,
        message=shortened(str(problem) if isinstance(problem, CenoteError) else _one_line(problem)),
        stage=stage,
        dataset=partition.dataset if partition else None,
        file=partition.url if partition else None,
        entries=(partition.start, partition.stop) if partition and partition.events else None,
        traceback=None if isinstance(problem, CenoteError) else _users_part(problem),
        error_kind=known,
    )


class blamed:  # noqa: N801  # reads as a word in a with statement
    """Turns what a step raises into a failure that names the stage and the partition, or the dataset of several."""

    def __init__(self, step: Step, partition: Partition | None, dataset: str | None = None) -> None:
        self.step, self.partition, self.dataset = step, partition, dataset

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is not None and not isinstance(problem, TaskFailure | Interrupted):
            info = failure_of(problem, stage=self.step.stage, partition=self.partition)
            raise TaskFailure(msgspec.structs.replace(info, dataset=info.dataset or self.dataset)) from problem


def _one_line(problem: BaseException) -> str:
    told = words_of(problem)
    if isinstance(problem, KeyError) and problem.args:
        told = printable(f"{type(problem).__name__}: {problem.args[0]}")
        told += _WHICH_VARIABLES if _looked_into_environment(problem) else ""
    return "; ".join([told, *(printable(str(note)) for note in getattr(problem, "__notes__", ()))])


def _looked_into_environment(problem: BaseException) -> bool:
    """Whether it was `os.environ` that did not have it."""
    *_, last = traceback.extract_tb(problem.__traceback__) or (None,)
    return last is not None and (last.filename, last.name) in {
        (one, "__getitem__") for one in ("<frozen os>", os.__file__)
    }


def _users_part(problem: BaseException) -> str | None:
    """The frames from the first to the last one outside this package; None where there is none."""
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [n for n, frame in enumerate(frames) if not frame.filename.startswith(_OURS)]
    if not theirs:
        return None
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[theirs[0] : theirs[-1] + 1])]
    return shortened(printable("".join([*lines, *traceback.format_exception_only(problem)])))
