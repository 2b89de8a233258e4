"""Test that complaints about an operation's params are few, placed and readable, whatever their types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.read import Checked

Read = Callable[..., Checked]

OPERATION = """
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from cenote.analysis.operations.interface import Operation, Result
from cenote.language.plugins.settings import Settings


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


def test_a_number_in_quotes_is_one_where_no_text_can_be_meant(read: Read) -> None:
    Path("fill.py").write_text(
        "from cenote import operation\n"
        "@operation('custom.fill', reads=[], adds=['x'])\n"
        "def fill(events, *, low=-1.5, bins=10, edges: list[float] | int = 3, name='', either: float | str = 1):\n"
        "    return {'x': 0}\n"
    )
    params = """{low: "-2.5", bins: "20", edges: ["1", "2e3"], name: "5", either: "5"}"""
    checked = read(f"plugins: fill.py\nanalysis: {{stages: [{{id: a, op: custom.fill, params: {params}}}]}}")
    assert not checked.problems
    made = registry.make(PluginKind.OPERATION, "custom.fill", checked.workflow.stages[0].params)
    assert (made.low, made.bins, made.edges, made.name, made.either) == (-2.5, 20, [1.0, 2000.0], "5", "5")
    (problem,) = read("""plugins: fill.py
analysis: {stages: [{id: a, op: custom.fill, params: {bins: "2.5"}}]}""").problems
    assert problem.message == "'bins' of the params of stage 'a': should be a whole number, not '2.5'"
