"""Define the two ways an expression fails: it cannot be read, or it cannot be computed."""

from __future__ import annotations


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
