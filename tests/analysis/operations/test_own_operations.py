"""Check the decorator `operation`: own functions and classes as stages, checked on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from cenote.analysis.operations.interface import Scope
from cenote.analysis.operations.support.custom import CustomOperation, operation
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common import errors
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind


def three_events() -> Events:
    return Events({"x": np.array([1.0, 2.0, 3.0]), "n": np.array([1, 0, 2])}, 3, DatasetInfo("d"))


def made(code: Any, **params: Any) -> CustomOperation:
    prepared: CustomOperation = code.cenote_factory.model_validate(params).for_stage("Mine")
    prepared.prepare()
    return prepared


@operation("custom.scale", reads=["x"], adds=["scaled"])
def scale(events: Events, *, factor: float = 2.0) -> dict[str, Any]:
    """Scales x."""
    return {"scaled": events["x"] * factor}


def test_a_function_adds_columns_and_stays_a_function() -> None:
    assert made(scale, factor=3).run(three_events()).events["scaled"].tolist() == [3.0, 6.0, 9.0]
    assert scale(three_events())["scaled"].tolist() == [2.0, 4.0, 6.0]
    assert scale.cenote_plugin == ("operation", "custom.scale")  # type: ignore[attr-defined]


def test_parameters_are_checked_by_name_and_type() -> None:
    with pytest.raises(ValidationError, match="factr"):
        made(scale, factr=3)
    with pytest.raises(ValidationError, match="valid number"):
        made(scale, factor="much")


def test_types_come_from_annotations_or_defaults() -> None:
    @operation("custom.typed", adds=["y"])
    def typed(events: Events, *, how: str, times=5, names: list[str] | None = None) -> dict[str, Any]:  # type: ignore[no-untyped-def]
        return {"y": times if len(events) and how and names else 0}

    with pytest.raises(ValidationError, match="how"):
        made(typed)
    with pytest.raises(ValidationError, match="valid integer"):
        made(typed, how="a", times=1.5)
    assert made(typed, how="a", names=["b"]).run(three_events()).events["y"].tolist() == [5, 5, 5]


def test_only_declared_columns_are_seen() -> None:
    @operation("custom.curious", reads=["x"], adds=["y"])
    def curious(events: Events) -> dict[str, Any]:
        return {"y": events["n"]}

    with pytest.raises(KeyError) as caught:
        made(curious).run(three_events())
    assert caught.value.__notes__ == [
        "'custom.curious' receives only the columns it declares, reads=['x']: add it there"
    ]


def test_reads_and_adds_may_depend_on_the_params() -> None:
    @operation("custom.flexible", reads=lambda params: [params.column], adds=lambda out: [out])
    def flexible(events: Events, *, column: str, out: str = "y") -> dict[str, Any]:
        return {out: events[column] + 1}

    ready = made(flexible, column="n", out="z")
    assert ready.reads() == ("n",)
    assert ready.adds() == ("z",)
    assert ready.run(three_events()).events["z"].tolist() == [2, 1, 3]


def test_without_reads_the_columns_asked_for_in_the_params_are_given() -> None:
    @operation("custom.columns", adds=["total"])
    def total(events: Events, *, columns: list[str]) -> dict[str, Any]:
        return {"total": sum(events[name] for name in columns)}

    ready = made(total, columns=["x", "n"])
    assert ready.reads() == ("x", "n")
    assert ready.run(three_events()).events["total"].tolist() == [2.0, 2.0, 5.0]


def test_a_mask_keeps_events() -> None:
    @operation("custom.keep", reads=["n"], filter=True)
    def keep(events: Events) -> Any:
        return events["n"] > 0

    assert made(keep).run(three_events()).events["x"].tolist() == [1.0, 3.0]


def test_columns_mask_and_product_come_as_a_tuple() -> None:
    @operation("custom.all", reads=["n"], adds=["y"], filter=True, product="tally", merge=sum)
    def everything(events: Events) -> Any:
        return {"y": events["n"] * 2}, events["n"] > 0, int(events["n"].sum())

    ready = made(everything)
    result = ready.run(three_events())
    assert result.events["y"].tolist() == [2, 4]
    assert result.product == 3
    assert ready.product == "object"
    assert ready.merge([1, 2, 3]) == 6


@pytest.mark.parametrize(
    ("returned", "part"),
    [
        ([1, 2], "returned a value of type list where a mapping of columns is expected"),
        (None, "returned nothing"),
        ({}, "did not return the column y"),
        ({"y": 1, "z": 2}, "returned the column z too"),
        ({"y": np.zeros(2)}, "has 2 values for 3 events"),
    ],
)
def test_something_else_than_declared_is_explained(returned: Any, part: str) -> None:
    @operation("custom.wrong", adds=["y"])
    def wrong(events: Events) -> Any:  # noqa: ARG001  # the events come in anyway
        return returned

    with pytest.raises(TypeError) as caught:
        made(wrong).run(three_events())
    assert part in str(caught.value)
    assert "operation 'custom.wrong' of stage 'Mine'" in str(caught.value)
    assert "it declares columns y" in str(caught.value)


def test_undeclared_columns_and_wrong_masks_are_explained() -> None:
    @operation("custom.silent")
    def silent(events: Events, *, what: str) -> Any:  # noqa: ARG001  # the events come in anyway
        return {"columns": {"y": 1}, "mask": np.array([True]), "text": "hello", "nothing": None}[what]

    with pytest.raises(TypeError, match="name them under adds="):
        made(silent, what="columns").run(three_events())
    with pytest.raises(TypeError, match="3 booleans are due"):
        made(silent, what="mask").run(three_events())
    with pytest.raises(TypeError, match="declare adds=, filter=True or product="):
        made(silent, what="text").run(three_events())
    assert made(silent, what="nothing").run(three_events()).events.size == 3


def test_a_class_is_prepared_once() -> None:
    calls = []

    @operation("custom.model", reads=["x"], adds=["score"])
    class Model:
        def __init__(self, *, path: str = "model", scale: float = 1.0) -> None:
            self.path, self.scale = path, scale

        def prepare(self) -> None:
            calls.append(self.path)

        def run(self, events: Events, *, offset: float = 0.0) -> dict[str, Any]:
            return {"score": events["x"] * self.scale + offset}

    ready = made(Model, path="m.onnx", scale=2, offset=1)
    ready.run(three_events())
    assert ready.run(three_events()).events["score"].tolist() == [3.0, 5.0, 7.0]
    assert calls == ["m.onnx"]


def test_a_class_may_list_its_params_as_attributes() -> None:
    @operation("custom.attributes", reads=["x"], adds=["y"])
    class Attributes:
        scale: float = 3.0

        def __call__(self, events: Events) -> dict[str, Any]:
            return {"y": events["x"] * self.scale}

    assert made(Attributes).run(three_events()).events["y"].tolist() == [3.0, 6.0, 9.0]


def test_params_may_be_called_like_anything() -> None:
    @operation("custom.names", scope="run", product="model")
    def names(events: Events, *, scope: str, reads: int = 1, model_dump: int = 2) -> dict[str, Any]:  # noqa: ARG001
        return {"scope": scope, "reads": reads, "model_dump": model_dump}

    ready = made(names, scope="wide", model_dump=5)
    assert ready.scope is Scope.RUN
    sent = ready.model_dump(mode="json", exclude_unset=True, by_alias=True)
    assert sent == {"scope": "wide", "model_dump": 5}
    assert made(names, **sent).run(three_events()).product == {"scope": "wide", "reads": 1, "model_dump": 5}


def test_a_product_per_partition_must_say_how_it_merges() -> None:
    def declare() -> None:
        @operation("custom.parts", product="model")
        def parts(events: Events) -> int:  # noqa: ARG001
            return 1

    with pytest.raises(errors.CenoteError, match="without a rule to merge"):
        declare()


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (lambda: 1, "first argument"),
        (lambda _, **params: params, "name its parameters"),
        (type("Empty", (), {}), "run"),
    ],
)
def test_what_cannot_be_an_operation_is_refused(code: Callable[..., Any], part: str) -> None:
    with pytest.raises(errors.CenoteError, match=part) as caught:
        operation("custom.odd")(code)
    assert caught.value.problems[0].kind is errors.BAD_PLUGIN


@pytest.fixture
def _own_registry() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


@pytest.mark.usefixtures("_own_registry")
def test_a_plugin_file_brings_operations_and_its_text_is_their_fingerprint(tmp_path: Path) -> None:
    text = (
        "from cenote.analysis.operations.support.custom import operation\n\n"
        "@operation('custom.mine', reads=['x'], adds=['y'])\n"
        "def mine(events, *, k=1):\n    return {'y': events['x'] * k}\n"
    )
    prints = []
    for name, content in [("one", text), ("two", text), ("three", text.replace("* k", "+ k"))]:
        file = tmp_path / name / "ops.py"
        file.parent.mkdir()
        file.write_text(content)
        registry.add_file(file)
        prints.append(registry.load(PluginKind.OPERATION, "custom.mine").fingerprint)
    assert prints[0] == prints[1] != prints[2]
