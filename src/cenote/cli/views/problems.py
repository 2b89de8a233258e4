"""Show what is wrong: where, what is there, what next, and on a terminal the line itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cenote.cli.console import messages
from cenote.common.errors import Place, Problem
from cenote.common.text import plural


def show_problems(problems: Sequence[Problem], *, console: Console | None = None) -> None:
    """All of them on stderr, then how many there are (one that is in no file speaks for itself)."""
    console = console or messages()
    for number, problem in enumerate(problems):
        if console.is_terminal:
            if number:
                console.print()
            for part in parts_for_a_terminal(problem, width=console.width):
                console.print(part, no_wrap=part.no_wrap, overflow=part.overflow)
        else:
            console.print(str(problem), soft_wrap=True)
    if len(problems) > 1 or any(problem.place for problem in problems):
        if console.is_terminal:
            console.print()
        console.print(Text(tally(problems), style="bold"), soft_wrap=True)


def show_warnings(warnings: Iterable[str], *, console: Console | None = None) -> None:
    """Each on a line of its own on stderr."""
    console = console or messages()
    for warning in warnings:
        console.print(Text.assemble(("warning: ", "yellow"), warning), soft_wrap=not console.is_terminal)


def problems_as_json(problems: Sequence[Problem], warnings: Sequence[str] = ()) -> str:
    """For editors and scripts: the answer of `check --json`, and of any command with `--json` that has no other."""
    told = {
        "ok": not problems,
        "problems": [problem_as_json(problem) for problem in problems],
        "warnings": list(warnings),
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def problem_as_json(problem: Problem) -> dict[str, object]:
    """One of them, as plain data."""
    return {
        "kind": problem.kind.name,
        "message": problem.message,
        "file": problem.place.file if problem.place else None,
        "line": problem.place.line if problem.place else None,
        "column": problem.place.column if problem.place else None,
        "details": list(problem.details),
        "hint": problem.hint,
    }


def tally(problems: Sequence[Problem]) -> str:
    """`3 problems in flow.yaml`; names no file when the problems are in none, or in several."""
    files = {problem.place.file for problem in problems if problem.place}
    count = plural(len(problems), "problem")
    if len(files) > 1:
        return f"{count} in {len(files)} files"
    return f"{count} in {files.pop()}" if files else count


def parts_for_a_terminal(problem: Problem, *, width: int) -> Iterator[Text]:
    """The words of `str(problem)` in colour, and below the message the line that it is about."""
    head = Text()
    if problem.place:
        head.append(f"{problem.place}: ", "bold")
    head.append(problem.message, "red")
    head.append(f"  [{problem.kind.name}]", "dim")
    yield head
    if problem.place:
        for line in source_lines(problem.place, width=width):
            yield Text(line, style="dim", no_wrap=True, overflow="ellipsis")
    for detail in problem.details:
        yield Text(f"  {detail}")
    if problem.hint:
        yield Text.assemble(("  hint: ", "cyan"), problem.hint)


def source_lines(place: Place, *, width: int) -> list[str]:
    """The line a problem stands on with a caret below the column, or nothing if it cannot be read."""
    try:
        line = Path(place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return []
    number = f"{place.line}"
    room = width - len(number) - 5
    before = place.column - 1
    if before > room * 2 // 3:  # the caret would be out of sight: leave out the beginning
        line, before = f"…{line[before - room // 2 :]}", room // 2 + 1
    # A tab stays a tab below it, so that the caret stands under its character whatever the tab width.
    gap = "".join("\t" if character == "\t" else " " for character in line[:before])
    return [f"  {number} | {line}", f"  {' ' * len(number)} | {gap}^"]
