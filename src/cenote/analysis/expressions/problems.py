"""Cut an expression into tokens, and define the two ways it fails: it cannot be read, or not be computed."""

from __future__ import annotations

import re
from typing import Literal

from cenote.common.values import dataclass


class BadExpressionError(ValueError):
    """The text is not an expression; `column` counts from 1 within it."""

    def __init__(self, text: str, column: int, message: str, hint: str | None = None) -> None:
        super().__init__(text, column, message, hint)
        self.text = text
        self.column = column
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"in '{self.text}', column {self.column}: {self.message}{hint}"


class EvaluationError(ValueError):
    """The expression is well formed, but these columns do not allow it."""


class UnfitTypesError(EvaluationError):
    """Their types alone do not, whatever values are in them."""


# Cut an expression's text into tokens that know their column.


Kind = Literal["number", "name", "text", "sign", "end"]

NAME = r"[^\W\d]\w*"
_TOKEN = re.compile(
    rf"""
    (?P<number>0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>{NAME}(?:\.{NAME})*)
  | `(?P<quoted>[^`]+)`
  | (?P<text>'[^']*'|"[^"]*")
  | (?P<sign>\*\*|//|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^~!()\[\],:=])
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")
WORD_SIGNS = frozenset({"and", "or", "not"})

LONGEST = 20_000
"""Characters; a longer text is not something a person wrote."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word of an expression; `column` counts from 1."""

    kind: Kind
    text: str
    column: int


def tokens(text: str) -> list[Token]:
    """All tokens of the text, with one of kind `end` after the last."""
    if len(text) > LONGEST:
        raise BadExpressionError(text[:60] + "…", 1, f"an expression of {len(text)} characters is too long")
    found: list[Token] = []
    position = _after_space(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        found.append(_token(text, match))
        position = _after_space(text, match.end())
    found.append(Token("end", "", len(text) + 1))
    return found


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _token(text: str, match: re.Match[str]) -> Token:
    column = match.start() + 1
    if (number := match["number"]) is not None:
        rest = text[match.end() : match.end() + 1]
        if rest.isalnum() or rest in {"_", "."}:
            raise BadExpressionError(
                text, column, f"'{number}{rest}…' is neither a number nor a name", "a product needs '*'"
            )
        return Token("number", number, column)
    if (name := match["name"]) is not None:
        return Token("sign" if name in WORD_SIGNS else "name", name, column)
    if (quoted := match["quoted"]) is not None:
        return Token("name", quoted, column)
    if (string := match["text"]) is not None:
        return Token("text", string[1:-1], column)
    return Token("sign", match["sign"], column)


def _unreadable(text: str, position: int) -> BadExpressionError:
    character = text[position]
    hints = {
        ".": "there is no attribute access: write functions as sum(x), not x.sum()",
        "?": "write where(condition, a, b)",
        "'": "the quoted text has no end",
        '"': "the quoted text has no end",
        "`": "the quoted name has no end",
    }
    return BadExpressionError(text, position + 1, f"'{character}' is not allowed here", hints.get(character))
