"""Try one text on a reader: whatever it holds, the answer is a value or an error with a position."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

import awkward as ak
import numpy as np

from cenote.analysis.expressions.arrays import Column
from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import BadExpressionError, EvaluationError
from cenote.api import Analysis
from cenote.cli.start import TEMPLATES, text_files
from cenote.language.plugins import registry
from cenote.language.read import read_workflow
from cenote.testing.muons import write_muons
from fuzzing.mutate import a_workflow, an_expression

CORPUS = Path(__file__).parent / "corpus"
"""What was found: each file is one text that once broke its target."""
SECONDS = 60
"""After which a text counts as one that hangs its reader."""
_WITHOUT_PLACE = {"missing-file", "bad-plugin", "no-data", "bad-path", "unknown-profile"}
"""Kinds of problems that may be about no place of the file."""


class HangsError(Exception):
    """A text took too long."""


@dataclass(frozen=True)
class Target:
    """A reader, and texts for it."""

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    """Raises whatever is wrong."""

    @property
    def found(self) -> list[Path]:
        """Its part of the corpus."""
        return sorted((CORPUS / self.name).iterdir())

    def run(self, text: bytes) -> None:
        """Raises what is wrong with this text."""
        with _alarm():
            self.check(text)


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise HangsError(f"it takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def _examples() -> tuple[bytes, ...]:
    """The workflows of the templates, of the pages that Cenote grew from, and of two sites."""
    tests = Path(__file__).parents[1]
    templates = [text for _, text in _template_files(".yaml")]
    others = [*tests.glob("features/workflows/seed_snippets/*/*.yaml"), *tests.parent.glob("examples/sites/**/*.yaml")]
    return tuple(6 * [text.encode() for text in templates] + [file.read_bytes() for file in sorted(others)])


def _template_files(suffix: str) -> list[tuple[str, str]]:
    found = [file for template in TEMPLATES.values() for file in text_files(template)]
    return [(name, text) for name, text in found if name.endswith(suffix)]


def furnish(folder: Path) -> None:
    """Put there what the workflows name beside themselves: operations, some data, each other."""
    operations = [text for name, text in _template_files(".py") if name == "ops.py"]
    (folder / "ops.py").write_text(
        "\n".join(text.replace("from __future__", "# from __future__") for text in operations)
    )
    (folder / "data").mkdir()
    for name in ("data", "dy", "ttbar", "signal", "background"):
        write_muons(folder / "data" / f"{name}_1.root", events=20, weighted=True)
    for name, text in _template_files(".yaml"):
        (folder / name).write_text(text)


def _check_workflow(text: bytes) -> None:
    """Everything that `cenote check` does, in a folder that `furnish` has furnished."""
    forget = registry.forget_added()
    try:
        file = Path("flow.yaml")
        checked = Analysis(file, lambda: read_workflow(file, content=text)).check()
    finally:
        forget()
    for problem in checked.problems:
        str(problem).encode()
        if problem.place is None and problem.kind.name not in _WITHOUT_PLACE:
            raise AssertionError(f"no position: {problem.kind.name}: {problem}")


_COLUMNS: dict[str, Column] = {
    "flat": np.array([0.0, -1.5, np.nan, np.inf]),
    "whole": np.array([0, 1, -(2**63), 2**63 - 1]),
    "narrow": np.array([0, 255, 7, 1], dtype=np.uint8),
    "huge": np.array([0, 2**64 - 1, 1, 2], dtype=np.uint64),
    "flag": np.array([True, False, True, False]),
    "jagged": ak.Array([[1.0, 2.0], [], [np.nan], [4.0, 5.0, 6.0]]),
    "nested": ak.Array([[[1], []], [], [[2, 3]], [[4]]]),
    "text": ak.Array(["a", "", "é", "long"]),
    "maybe": ak.Array([1, None, 3, None]),
    "nothing": np.array([], dtype=np.float32),
}


def _check_expression(text: bytes) -> None:
    written = text.decode("utf-8", "surrogatepass")
    try:
        expression = Expression(written)
    except BadExpressionError as problem:
        str(problem).encode("utf-8", "backslashreplace")
        if not 1 <= problem.column <= len(written) + 1:
            raise AssertionError(f"column {problem.column} is not in the text") from problem
        return
    try:
        expression.evaluate(lambda name: _COLUMNS.get(name, 3.14))
    except EvaluationError as problem:
        str(problem).encode("utf-8", "backslashreplace")


TARGETS = {
    target.name: target
    for target in (
        Target("workflows", lambda random: a_workflow(random, _examples()), _check_workflow),
        Target("expressions", lambda random: an_expression(random).encode("utf-8", "surrogatepass"), _check_expression),
    )
}
