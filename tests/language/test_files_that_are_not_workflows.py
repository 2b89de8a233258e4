"""Test what is said of files that cannot be read at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.language.read import Checked, read_workflow

Read = Callable[..., Checked]
Write = Callable[[str, str], Path]


def the_only_problem(checked: Checked) -> Problem:
    assert checked.workflow is None
    assert len(checked.problems) == 1, [str(problem) for problem in checked.problems]
    return checked.problems[0]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("analysis:\n\tstages: []\n", "flow.yaml:2:1", "a tab is used as indentation"),
        ("a:\n  b: 1\n  \tc: 2\n", "flow.yaml:3:3", "a tab is used as indentation"),
        ("", "flow.yaml:1:1", "is empty"),
        ("# only a comment\n", "flow.yaml:1:1", "is empty"),
        ("- a\n- b\n", "flow.yaml:1:1", "contains a list"),
        ("just words\n", "flow.yaml:1:1", "contains a single value"),
        ("a: [1, 2\n", "flow.yaml:2:1", "not YAML"),
        ("a: b: c\n", "flow.yaml:1:5", "mapping values are not allowed"),
        ("a: 'b\n", "flow.yaml:2:1", "unexpected end of stream"),
        ("a: @b\n", "flow.yaml:1:4", "cannot start any token"),
        ("a: 1\n---\nb: 2\n", "flow.yaml:2:1", "a second YAML document begins here"),
        ("a: *nowhere\n", "flow.yaml:1:4", "no anchor '&nowhere'"),
        ("a: &a [*a]\n", "flow.yaml:1:8", "no anchor '&a'"),
        ("a: !!python/object:os.system x\n", "flow.yaml:1:4", "cannot be read as"),
        ("? [1]\n: 2\n", "flow.yaml:1:3", "a key must be text"),
        ("<<: 5\n", "flow.yaml", "'<<' merges mappings"),
        ("a: \x01\n", "flow.yaml:1:4", "U+0001"),
        ("[" * 3000, "flow.yaml:1:102", "levels deep"),
    ],
    ids=lambda value: None if len(value) > 60 else value,
)
def test_a_file_that_is_not_a_workflow_is_explained(read: Read, text: str, place: str, words: str) -> None:
    problem = the_only_problem(read(text))
    assert problem.kind is errors.BAD_YAML
    assert str(problem).startswith(place)
    assert words in problem.message


@pytest.mark.parametrize(("text", "sign"), [("a: {b: !HLT_Mu}\n", "!"), ("a: *HLT_Mu\n", "*")])
def test_text_that_yaml_takes_for_something_else_needs_quotes(read: Read, text: str, sign: str) -> None:
    assert the_only_problem(read(text)).hint == f"put text that begins with '{sign}' in quotes"


def test_a_missing_file_names_the_one_that_was_probably_meant(folder: Path, write: Write) -> None:
    write("flow.yaml", "analysis: {stages: []}")
    problem = the_only_problem(read_workflow(folder / "flwo.yaml"))
    assert problem.kind is errors.MISSING_FILE
    assert problem.hint == "did you mean 'flow.yaml'?"


def test_a_folder_is_not_a_file(folder: Path) -> None:
    problem = the_only_problem(read_workflow(folder.resolve()))
    assert problem.kind is errors.MISSING_FILE
    assert "is a folder" in problem.message


def test_a_binary_file_is_called_so(folder: Path) -> None:
    (folder / "data.root").write_bytes(b"root\x00\x00\xf6\x7f" * 100)
    problem = the_only_problem(read_workflow(folder / "data.root"))
    assert problem.message == "data.root is not a text file"


def test_text_in_another_encoding_shows_where(folder: Path) -> None:
    (folder / "flow.yaml").write_bytes("a: 1\nb: Müller\n".encode("latin-1"))
    problem = the_only_problem(read_workflow(folder / "flow.yaml"))
    assert str(problem).startswith("flow.yaml:2:5: flow.yaml is not UTF-8 text")


def test_a_byte_order_mark_does_no_harm(folder: Path) -> None:
    (folder / "flow.yaml").write_bytes(b"\xef\xbb\xbfanalysis: {stages: []}\n")
    assert read_workflow(folder / "flow.yaml").problems == ()


def test_every_key_that_stands_twice_is_reported(read: Read) -> None:
    checked = read("version: 1.0\nversion: 1.0\nanalysis:\n  stages: []\n  stages: []\n")
    assert [problem.kind for problem in checked.problems] == [errors.DUPLICATE_KEY] * 2
    assert [str(problem.place) for problem in checked.problems] == ["flow.yaml:2:1", "flow.yaml:5:3"]
    assert checked.problems[0].details == ("first at flow.yaml:1:1",)
