"""State in plain words why a text is not YAML, and where."""

from __future__ import annotations

import re

import yaml

from cenote import errors
from cenote.errors import Place, Problem

_HINTS = {
    "mapping values are not allowed": "a value that holds ': ' needs quotes, or a line above is not finished",
    "could not find expected ':'": "a key is written as 'key: value', with a space after the colon",
    "did not find expected key": "keys of one mapping begin in the same column",
    "did not find expected '-' indicator": "items of one list begin in the same column",
    "expected <block end>": "keys of one mapping begin in the same column",
    "did not find expected ',' or": "a bracket is not closed, or a comma is missing",
    "did not find expected node content": "a bracket is not closed, or two commas follow each other",
    "cannot start any token": "put text that begins with this character in quotes",
    "did not find expected whitespace or line break": "put text that begins with '!' in quotes",
    "unexpected end of stream": "a quote or a bracket is not closed",
}


def syntax_problem(problem: yaml.MarkedYAMLError, text: str, file: str | None) -> Problem:
    """The parser's complaint, with a hint; a tab used as indentation is called so."""
    mark = problem.problem_mark or problem.context_mark
    line = mark.line if mark else 0
    tab = _tab_in_indentation(text, line)
    if tab:
        place = Place(file, *tab) if file else None
        return Problem(errors.BAD_YAML, "a tab is used as indentation", place=place, hint="YAML wants spaces here")
    what = problem.problem or "this cannot be read"
    hint = next((hint for part, hint in _HINTS.items() if part in what), None)
    place = Place(file, line + 1, (mark.column if mark else 0) + 1) if file else None
    begun = problem.context_mark
    since = f", begun in line {begun.line + 1}" if begun and begun.line != line else ""
    details = (f"{problem.context}{since}",) if problem.context else ()
    return Problem(errors.BAD_YAML, f"not YAML: {what}", place=place, details=details, hint=hint)


def _tab_in_indentation(text: str, last_line: int) -> tuple[int, int] | None:
    """Line and column of a tab before the first character of the line where reading stopped, or of the one before."""
    lines = text.splitlines()
    for number in range(min(last_line, len(lines) - 1), max(last_line - 2, -1), -1):
        line = lines[number]
        indentation = line[: len(line) - len(line.lstrip())]
        if "\t" in indentation and line.strip():
            return number + 1, indentation.index("\t") + 1
    return None


_UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def character_problem(text: str, file: str | None) -> Problem:
    """The first character that no YAML file may hold."""
    match = re.search(_UNPRINTABLE, text)
    position = match.start() if match else 0
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    place = Place(file, line, column) if file else None
    character = f" (U+{ord(match.group()):04X})" if match else ""
    return Problem(errors.BAD_YAML, f"a character that YAML does not allow{character}", place=place)
