"""This file tests that the committed JSON Schema is the one that the models give."""

from __future__ import annotations

import json
from pathlib import Path

from cenote.language.json_schema import workflow_schema

COMMITTED = Path(__file__).parents[2] / "schema" / "cenote.schema.json"


def test_the_committed_schema_is_true() -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert committed == workflow_schema(), "run `cenote schema > schema/cenote.schema.json` and commit the result"
