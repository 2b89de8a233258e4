"""Test the merge of two documents: later wins, key by key."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from cenote.language.layers.profiles import merge
from cenote.language.yaml.source import Located

KEYS = st.sampled_from("abcd")
SCALARS = st.integers() | st.booleans() | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=3), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def located(value: Any, layer: str = "a") -> Located:
    if isinstance(value, dict):
        return Located({key: located(child, layer) for key, child in value.items()}, layer)
    if isinstance(value, list):
        return Located([located(child, layer) for child in value], layer)
    return Located(value, layer)


def leaves(node: Located, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Located]:
    if isinstance(node.value, dict) and node.value:
        return {at: leaf for key, child in node.value.items() for at, leaf in leaves(child, (*path, key)).items()}
    return {path: node}


@given(DOCUMENTS, DOCUMENTS)
def test_every_leaf_above_wins(under: dict[str, Any], over: dict[str, Any]) -> None:
    merged = leaves(merge(located(under, "under"), located(over, "over")))
    for path, leaf in leaves(located(over, "over")).items():
        if path and leaf.value != {}:
            assert merged[path] == leaf


@given(DOCUMENTS, DOCUMENTS)
def test_every_leaf_of_the_result_was_written_in_one_of_the_two(under: dict[str, Any], over: dict[str, Any]) -> None:
    below, above = leaves(located(under, "under")), leaves(located(over, "over"))
    for path, leaf in leaves(merge(located(under, "under"), located(over, "over"))).items():
        if path and leaf.value != {}:
            assert leaf in (above.get(path), below.get(path))


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_merging_is_associative(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    # Where a mapping meets a scalar the order matters: the scalar in the middle forgets what stood below it.
    assume(not _clash(a, b) and not _clash(b, c) and not _clash(a, c))
    one, two, three = located(a), located(b), located(c)
    assert merge(merge(one, two), three).plain() == merge(one, merge(two, three)).plain()


def _clash(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return any(_clash(a[key], b[key]) for key in a.keys() & b.keys())
    return isinstance(a, dict) != isinstance(b, dict)


@given(DOCUMENTS)
def test_merging_with_nothing_changes_nothing(document: dict[str, Any]) -> None:
    assert merge(located({}), located(document)).plain() == document
    assert merge(located(document), located({})).plain() == document


def test_lists_are_replaced_between_layers_and_concatenated_for_includes() -> None:
    under, over = located({"a": [1, 2]}), located({"a": [3]})
    assert merge(under, over).plain() == {"a": [3]}
    assert merge(under, over, concatenate=True).plain() == {"a": [1, 2, 3]}


def test_an_elastic_pool_takes_the_fixed_size_of_a_lower_layer_away() -> None:
    under = located({"execution": {"pools": {"gpu": {"workers": 4, "slots": 2}}}})
    over = located({"execution": {"pools": {"gpu": {"elastic": {"max": 3}}}}})
    assert merge(under, over).plain() == {"execution": {"pools": {"gpu": {"slots": 2, "elastic": {"max": 3}}}}}
    assert merge(over, under).plain() == {"execution": {"pools": {"gpu": {"workers": 4, "slots": 2}}}}


def test_null_takes_a_mapping_of_a_lower_layer_away() -> None:
    assert merge(located({"a": {"b": 1}}), located({"a": None})).plain() == {}
