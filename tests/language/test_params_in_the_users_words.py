"""Test that complaints about an operation's params are few, placed and readable, whatever their types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.language.read import Checked

Read = Callable[..., Checked]

OPERATION = """
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from cenote.operations.interface import Operation, Result
from cenote.plugins.settings import Settings


class Bins(Settings):
    low: float
    high: float


class Axis(Settings):
    name: str
    bins: Bins | Annotated[list[float], Field(min_length=2)] | None = None
    style: str | Bins | None = None


class Fill(Operation):
    cenote_plugin: ClassVar = ("operation", "custom.fill")
    axes: Annotated[tuple[Axis, ...], Field(min_length=1)] = ()
    storage: Literal["count", "weighted"] = "count"
    by_name: dict[str, Axis] = {}
    even: int = 2

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("should be even")
        if value > 1000:
            raise TypeError("a fault of the plugin")
        return value

    def run(self, events):
        return Result(events)
"""


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("axes: []", "'axes' of the params of stage 'a': should have at least 1 item(s)"),
        ("axes: 5", "'axes' of the params of stage 'a': should be a list, not 5"),
        ("axes: [{nme: x}]", "there is no key 'nme' in 'axes.0' of the params of stage 'a'"),
        ("axes: [{name: 5}]", "'axes.0.name' of the params of stage 'a': should be text, not 5"),
        ("axes: [{name: x, bins: {low: 1}}]", "'high' is missing in 'axes.0.bins' of the params of stage 'a'"),
        ("axes: [{name: x, bins: [1]}]", "'axes.0.bins' of the params of stage 'a': should have at least 2 item(s)"),
        (
            "axes: [{name: x, style: {low: 1, high: y}}]",
            "'axes.0.style.high' of the params of stage 'a': should be a number, not 'y'",
        ),
        ("by_name: {x: {name: y, bin: 1}}", "there is no key 'bin' in 'by_name.x' of the params of stage 'a'"),
        (
            "storage: wieghted",
            "'storage' of the params of stage 'a': should be 'count' or 'weighted', not 'wieghted'",
        ),
        ("even: 3", "'even' of the params of stage 'a': should be even"),
        (
            "even: 2000",
            "the params of stage 'a': operation 'custom.fill' rejects its settings: TypeError: a fault of the plugin",
        ),
    ],
)
def test_one_mistake_gives_one_sentence(read: Read, params: str, said: str) -> None:
    Path("fill.py").write_text(OPERATION)
    text = f"plugins: fill.py\nanalysis: {{stages: [{{id: a, op: custom.fill, params: {{{params}}}}}]}}"
    (problem,) = read(text).problems
    assert problem.message == said
    assert problem.place is not None
    assert problem.place.line == 2
