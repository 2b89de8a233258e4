"""Test that types of settings are worded for authors of YAML."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from cenote.cli.views.plugin_pages import default_in_words, example_value, type_in_words
from cenote.language.plugins.settings import Memory, Settings


class Axis(Settings):
    name: str
    bins: int


class Everything(Settings):
    text: str
    count: int = 3
    ratio: float | None = None
    kind: Literal["step", "fill"] = "step"
    names: tuple[str, ...] = ()
    axes: list[Axis]
    limits: dict[str, float] | None = None
    memory: Memory = 0
    anything: Any = None
    flag: bool = True


SCHEMA = Everything.model_json_schema()
DEFINITIONS = SCHEMA["$defs"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text", "text"),
        ("count", "whole number"),
        ("ratio", "number"),
        ("kind", "one of step, fill"),
        ("names", "list of text"),
        ("axes", "list of Axis"),
        ("limits", "mapping of number"),
        ("memory", "text or whole number"),
        ("anything", "anything"),
        ("flag", "true or false"),
    ],
)
def test_types_are_words(name: str, words: str) -> None:
    assert type_in_words(SCHEMA["properties"][name], DEFINITIONS) == words


@pytest.mark.parametrize(("name", "words"), [("count", "3"), ("kind", "step"), ("ratio", ""), ("flag", "true")])
def test_defaults_are_written_as_in_yaml(name: str, words: str) -> None:
    assert default_in_words(SCHEMA["properties"][name]) == words


@pytest.mark.parametrize(
    ("name", "words"), [("axes", "[{name: …, bins: 1}]"), ("kind", "step"), ("memory", '"4GB"'), ("ratio", "1.0")]
)
def test_examples_have_the_right_type(name: str, words: str) -> None:
    assert example_value(SCHEMA["properties"][name], DEFINITIONS) == words
