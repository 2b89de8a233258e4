"""Test that no document, however strange, makes reading fail with anything but problems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cenote.language.availability import unavailable
from cenote.language.read import read_workflow
from cenote.language.schema.json_schema import workflow_schema

SCHEMA = workflow_schema()


def keys_of_the_language() -> Iterator[str]:
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        yield from part.get("properties", {})


KEYS = st.sampled_from(sorted(set(keys_of_the_language()))) | st.text(max_size=5)
WORDS = st.sampled_from(
    ["hep.define", "hep.hist", "a", "b", "events", "default", "gpu", "4GB", "4Gb", "10m", "hep", "x.py"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)
TOP_LEVEL = st.sampled_from(sorted(SCHEMA["properties"]))


def like(part: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Documents of nearly the right shape: some keys there, some values replaced by something else."""
    if "$ref" in part:
        part = SCHEMA["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    if depth > 8:
        return SCALARS
    if "anyOf" in part:
        return st.one_of([like(choice, depth + 1) for choice in part["anyOf"]] + [SCALARS])
    if "properties" in part:
        wanted = {key: like(child, depth + 1) for key, child in part["properties"].items()}
        required = {key: wanted[key] for key in part.get("required", [])}
        optional = {key: value for key, value in wanted.items() if key not in required}
        return st.fixed_dictionaries(required, optional=optional)
    if part.get("type") == "array" and "items" in part:
        return st.lists(like(part["items"], depth + 1), max_size=3)
    if isinstance(part.get("additionalProperties"), dict):
        return st.dictionaries(KEYS, like(part["additionalProperties"], depth + 1), max_size=3)
    return SCALARS


def read_document(document: object, folder: Path) -> None:
    # JSON is YAML, apart from the names of infinite numbers, which are text here.
    file = folder / "flow.yaml"
    file.write_text(json.dumps(document, ensure_ascii=True))
    checked = read_workflow(file)
    assert (checked.workflow is None) == bool(checked.problems)
    for problem in checked.problems:
        assert str(problem)
    if checked.workflow is not None:
        unavailable(checked.workflow)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("strange")


RELAXED = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RELAXED
@given(document=st.dictionaries(TOP_LEVEL, ANYTHING, max_size=5))
def test_random_content_under_known_keys(document: dict[str, Any], folder: Path) -> None:
    read_document(document, folder)


@RELAXED
@given(document=like(SCHEMA))
def test_documents_of_nearly_the_right_shape(document: dict[str, Any], folder: Path) -> None:
    read_document(document, folder)


@RELAXED
@given(content=st.binary(max_size=60))
def test_random_bytes(content: bytes, folder: Path) -> None:
    file = folder / "bytes.yaml"
    file.write_bytes(content)
    checked = read_workflow(file)
    assert checked.problems


@RELAXED
@given(assignment=st.text(max_size=20) | st.builds("{}={}".format, st.text('ab.0"', max_size=8), st.text(max_size=8)))
def test_random_assignments(assignment: str, folder: Path) -> None:
    file = folder / "flow.yaml"
    file.write_text("analysis: {stages: [], globals: {a: {b: [1, {id: a}]}}}")
    read_workflow(file, sets=[assignment])
