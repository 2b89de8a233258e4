"""Test that every state of a pool is explained, where it is shown and in the docs."""

from __future__ import annotations

from pathlib import Path

from cenote.engine.scaling import PoolState
from cenote.execution.runs.view.pool_words import POOL_WORDS, pool_word

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "plan-and-summary-json.md"


def test_every_state_of_the_engine_has_words() -> None:
    assert {state.value for state in PoolState} <= set(POOL_WORDS)


def test_no_two_states_share_their_words() -> None:
    assert len({word.short for word in POOL_WORDS.values()}) == len(POOL_WORDS)


def test_the_docs_have_a_row_for_every_state() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for state, word in POOL_WORDS.items():
        assert f"| `{state}` | {word.short} | {word.meaning} |" in page


def test_a_state_of_another_version_stands_for_itself() -> None:
    assert pool_word("Hibernating").short == "Hibernating"
