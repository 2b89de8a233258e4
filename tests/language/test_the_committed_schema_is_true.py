"""Test that the committed JSON Schema is the one that the models give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cenote.language.schema.json_schema import Purpose, workflow_schema

FILES: dict[Purpose, str] = {
    "workflow": "cenote.schema.json",
    "profile": "cenote-profile.schema.json",
    "site": "cenote-site.schema.json",
}
FOLDER = Path(__file__).parents[2] / "schema"


@pytest.mark.parametrize("purpose", FILES)
def test_the_committed_schema_is_true(purpose: Purpose) -> None:
    committed = json.loads((FOLDER / FILES[purpose]).read_text(encoding="utf-8"))
    assert committed == workflow_schema(purpose), "run `make docs` and commit the result"
