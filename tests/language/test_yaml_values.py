"""Test that plain text means what YAML 1.2 says it means, and that places are kept."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.counted_calls import calls_made
from cenote.common.errors import Place
from cenote.language.yaml.source import parse_yaml, plain_value


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("04:00:00", "04:00:00"),
        ("12:00:00", "12:00:00"),
        ("2024-01-31", "2024-01-31"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("17", 17),
        ("-3", -3),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e5", 100000.0),
        ("1.5E-3", 0.0015),
        (".5", 0.5),
        ("2.", 2.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1_000", "1_000"),
        ("4GB", "4GB"),
        ("-", "-"),
        ("+", "+"),
        ("0b1", "0b1"),
    ],
)
def test_plain_text_means_what_yaml_1_2_says(text: str, meaning: object) -> None:
    value = plain_value(text)
    assert value == meaning
    assert type(value) is type(meaning)


def test_not_a_number_is_a_number() -> None:
    value = plain_value(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_quoted_text_stays_text() -> None:
    parsed = parse_yaml("a: '5'\nb: \"true\"\nc: |\n  12\n", file="f", layer="f")
    assert parsed.root is not None
    assert parsed.root.plain() == {"a": "5", "b": "true", "c": "12\n"}


def test_keys_are_text_however_they_look() -> None:
    parsed = parse_yaml("1: a\ntrue: b\nnull: c\n04:00: d", file="f", layer="f")
    assert parsed.root is not None
    assert list(parsed.root.mapping) == ["1", "true", "null", "04:00"]


def test_standard_tags_are_obeyed() -> None:
    parsed = parse_yaml("a: !!str 3\nb: !!float 3\nc: !!int 4\nd: ! 5", file="f", layer="f")
    assert parsed.root is not None
    assert parsed.root.plain() == {"a": "3", "b": 3.0, "c": 4, "d": "5"}


def test_every_key_and_value_keeps_its_place() -> None:
    root = parse_yaml("one:\n  two: [10, x]\n", file="flow.yaml", layer="flow").root
    assert root is not None
    two = root.get("one", "two")
    assert two is not None
    assert two.key_place == Place("flow.yaml", 2, 3)
    assert two.place == Place("flow.yaml", 2, 8)
    assert two.items[1].place == Place("flow.yaml", 2, 13)


def test_columns_count_characters_not_bytes() -> None:
    root = parse_yaml("µµ: {ü: 1}", file="f", layer="f").root
    assert root is not None
    inner = root.get("µµ", "ü")
    assert inner is not None
    assert inner.place == Place("f", 1, 9)


def test_anchors_aliases_and_merge_keys_work() -> None:
    text = "base: &base {a: 1, b: 2}\nuse: *base\nmore: {<<: *base, b: 3}\nboth: {<<: [*base, {c: 4, a: 9}]}"
    root = parse_yaml(text, file="f", layer="f").root
    assert root is not None
    plain = root.plain()
    assert plain["use"] == {"a": 1, "b": 2}
    assert plain["more"] == {"b": 3, "a": 1}
    assert plain["both"] == {"a": 1, "b": 2, "c": 4}


def test_aliases_that_would_fill_the_memory_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    parsed = parse_yaml("\n".join(levels), file="f", layer="f")
    assert parsed.root is None
    assert "too large" in parsed.problems[0].message


def test_the_work_of_parsing_grows_with_the_text_and_no_faster() -> None:
    stage = "    - id: S{0}\n      op: hep.define\n      params: {{variables: [{{name: a, expr: 'x + {0}'}}]}}\n"

    def parse(count: int) -> None:
        text = "analysis:\n  stages:\n" + "".join(stage.format(n) for n in range(count))
        assert parse_yaml(text, file="f", layer="f").root is not None

    assert calls_made(lambda: parse(5000)) < 12 * calls_made(lambda: parse(500))


def test_reading_yaml_does_not_import_pydantic() -> None:
    code = "import sys, cenote.language.yaml.source; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_reading_a_workflow_does_not_import_what_only_plugins_need() -> None:
    code = (
        "import sys, cenote.language.read; "
        "sys.exit(any(name in sys.modules for name in ('uproot', 'awkward', 'matplotlib', 'dask')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_problem(text: str) -> None:
    parsed = parse_yaml(text, file="f", layer="f")
    assert parsed.root is not None or parsed.problems
