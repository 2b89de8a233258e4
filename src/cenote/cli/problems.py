"""This file shows what is wrong: where, what is there, what next, and on a terminal the line itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cenote.cli.console import messages
from cenote.errors import Place, Problem


def show_problems(problems: Sequence[Problem], *, console: Console | None = None) -> None:
    """All of them on stderr, then how many there are (one that is in no file speaks for itself)."""
    console = console or messages()
    for number, problem in enumerate(problems):
        if number and console.is_terminal:
            console.print()
        console.print(shown(problem, excerpt=console.is_terminal), soft_wrap=True)
    if len(problems) > 1 or any(problem.place for problem in problems):
        if console.is_terminal:
            console.print()
        console.print(Text(tally(problems), style="bold"), soft_wrap=True)


def show_warnings(warnings: Iterable[str], *, console: Console | None = None) -> None:
    """Each on a line of its own on stderr."""
    console = console or messages()
    for warning in warnings:
        console.print(Text.assemble(("warning: ", "yellow"), warning), soft_wrap=True)


def tally(problems: Sequence[Problem]) -> str:
    """`3 problems in flow.yaml`; names no file when the problems are in none, or in several."""
    files = {problem.place.file for problem in problems if problem.place}
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    if len(files) > 1:
        return f"{count} in {len(files)} files"
    return f"{count} in {files.pop()}" if files else count


def shown(problem: Problem, *, excerpt: bool) -> Text:
    """The problem as text: without the excerpt exactly what `str` gives."""
    text = Text()
    if problem.place:
        text.append(f"{problem.place}: ", "bold")
    text.append(problem.message, "red")
    if excerpt:
        text.append(f"  [{problem.kind.name}]", "dim")
        if problem.place:
            text.append(source_lines(problem.place), "dim")
    for line in problem.details:
        text.append(f"\n  {line}")
    if problem.hint:
        text.append("\n  hint: ", "cyan")
        text.append(problem.hint)
    return text


def source_lines(place: Place) -> str:
    """The line a problem stands on with a caret below the column, or nothing if it cannot be read."""
    try:
        lines = Path(place.file).read_text(encoding="utf-8").splitlines()
        line = lines[place.line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return ""
    if len(line) > 300:
        return ""
    number = f"{place.line}"
    # A tab stays a tab below it, so that the caret stands under its character whatever the tab width.
    before = "".join("\t" if character == "\t" else " " for character in line[: place.column - 1])
    return f"\n  {number} | {line}\n  {' ' * len(number)} | {before}^"
