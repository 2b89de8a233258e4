"""Models are evaluated on columns: the numbers are numpy's, whatever the shape of columns, models and batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import awkward as ak
import numpy as np
import pytest
from onnx import TensorProto, helper

from builders.onnx_models import by_numpy, dense, function, layers, model
from cenote import Events, OnnxModel
from cenote.analysis.operations.hep.inference import Inference
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.errors import CenoteError
from cenote.testing.stand_in_device import StandInDevice

NET = layers(3, 16, 1)


def events_of(**columns: Any) -> Events:
    return Events(columns, len(next(iter(columns.values()))), DatasetInfo("dy"))


def flat(size: int = 1000, seed: int = 3) -> Events:
    random = np.random.default_rng(seed)
    return events_of(
        a=random.normal(size=size), b=random.normal(size=size).astype(np.float32), n=random.integers(0, 5, size)
    )


def table(events: Events, *names: str) -> np.ndarray[Any, Any]:
    return np.stack([np.asarray(events[name]) for name in names], axis=1)


def answers(content: bytes, events: Events, inputs: Any, outputs: Any = "y", **settings: Any) -> dict[str, Any]:
    return OnnxModel(content, **settings).columns(events, inputs=inputs, outputs=outputs)


# --- values ---------------------------------------------------------------------------------------------------------


def test_columns_of_events_give_one_answer_per_event() -> None:
    events = flat()
    found = answers(dense(NET), events, ["a", "b", "n"])["y"]
    assert (found.dtype, found.shape) == (np.float32, (1000,))
    np.testing.assert_allclose(found, by_numpy(NET, table(events, "a", "b", "n"))[:, 0], rtol=1e-5)


def test_columns_of_lists_give_lists_of_answers() -> None:
    counts = np.array([2, 0, 1, 3])
    random = np.random.default_rng(1)
    values = random.normal(size=(3, 6)).astype(np.float32)
    events = events_of(**{name: ak.unflatten(column, counts) for name, column in zip("abc", values, strict=True)})
    found = answers(dense(NET), events, ["a", "b", "c"])["y"]
    assert ak.num(found).tolist() == counts.tolist()
    np.testing.assert_allclose(ak.to_numpy(ak.flatten(found)), by_numpy(NET, values.T)[:, 0], rtol=1e-5)


def test_numbers_of_events_are_repeated_for_their_elements() -> None:
    events = events_of(pt=ak.Array([[1.0, 2.0], [], [3.0]]), met=np.array([10.0, 20.0, 30.0]), n=np.array([2, 0, 1]))
    found = answers(dense(NET), events, ["pt", "met", "n"])["y"]
    expected = by_numpy(NET, np.array([[1, 10, 2], [2, 10, 2], [3, 30, 1]]))[:, 0]
    assert ak.num(found).tolist() == [2, 0, 1]
    np.testing.assert_allclose(ak.to_numpy(ak.flatten(found)), expected, rtol=1e-5)


def test_lists_that_are_all_empty_need_no_type() -> None:
    events = events_of(a=ak.Array([[], []]), b=np.ones(2), n=np.zeros(2))
    assert ak.to_list(answers(dense(NET), events, ["a", "b", "n"])["y"]) == [[], []]


def test_columns_of_arrays_are_lists_of_one_length() -> None:
    events = events_of(a=np.arange(6.0).reshape(3, 2), b=np.ones(3), n=np.zeros(3))
    found = answers(dense(NET), events, ["a", "b", "n"])["y"]
    expected = by_numpy(NET, np.array([[value, 1, 0] for value in range(6)]))[:, 0]
    np.testing.assert_allclose(ak.to_numpy(found).ravel(), expected, rtol=1e-5)


def test_columns_that_lie_on_a_gpu_are_taken_from_there() -> None:
    events, device = flat(100), StandInDevice()
    there = events_of(**{name: device.to_device(events[name]) for name in events.names})
    inputs = ["a", "b", "n"]
    assert np.array_equal(answers(dense(NET), there, inputs)["y"], answers(dense(NET), events, inputs)["y"])


def test_several_answers_per_row_are_several_columns_and_null_leaves_one_out() -> None:
    net, events = layers(2, 8, 3), flat(50)
    found = answers(dense(net), events, ["a", "b"], ["first", None, "third"])
    expected = by_numpy(net, table(events, "a", "b"))
    assert list(found) == ["first", "third"]
    np.testing.assert_allclose(found["first"], expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(found["third"], expected[:, 2], rtol=1e-5)


TWO_OF_EACH = model(
    [helper.make_node("Add", ["x", "z"], ["sum"]), helper.make_node("Cast", ["k"], ["label"], to=TensorProto.INT64)],
    {"x": ["N", 2], "z": ["N", 1], "k": ["N"]},
    {"sum": ["N", 2], "label": ["N"]},
    types={"z": TensorProto.FLOAT, "k": TensorProto.INT32, "label": TensorProto.INT64},
)


def test_inputs_and_outputs_of_a_model_are_chosen_by_name() -> None:
    events = flat(100)
    inputs = {"x": ["a", "b"], "z": "n", "k": "n"}
    both = answers(TWO_OF_EACH, events, inputs, {"label": "label", "sum": ["s", "t"]})
    assert both["label"].dtype == np.int64
    assert both["label"].tolist() == events["n"].tolist()
    np.testing.assert_allclose(both["t"], events["b"] + events["n"], rtol=1e-6)
    assert list(answers(TWO_OF_EACH, events, inputs, {"sum": [None, "t"]})) == ["t"]


def test_rows_of_any_fixed_shape_are_filled_in_order() -> None:
    reshaped = model(
        [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)], {"x": ["N", 2, 2]}, {"y": ["N", 2]}
    )
    found = answers(reshaped, events_of(a=[1.0], b=[5.0], c=[4.0], d=[2.0]), list("abcd"), ["left", "right"])
    assert (found["left"].tolist(), found["right"].tolist()) == ([4.0], [5.0])


@pytest.mark.parametrize("rows", [1, 5, "N"])
def test_models_for_a_fixed_number_of_rows_give_the_same(rows: int | str) -> None:
    events = flat(33)
    found = answers(dense(NET, rows=rows), events, ["a", "b", "n"])["y"]
    np.testing.assert_allclose(found, by_numpy(NET, table(events, "a", "b", "n"))[:, 0], rtol=1e-5)


@pytest.mark.parametrize("rows", [1, "N"])
def test_no_events_give_no_answers_of_the_right_type(rows: int | str) -> None:
    none = events_of(a=np.empty(0), b=np.empty(0), n=np.empty(0, dtype=np.int64), pt=ak.Array([[1.0]])[:0])
    assert answers(dense(NET, rows=rows), none, ["a", "b", "n"])["y"].dtype == np.float32
    jagged = answers(dense(NET, rows=rows), none, ["pt", "b", "n"])["y"]
    assert str(ak.type(jagged)) == "0 * var * float32"
    no_elements = events_of(a=ak.Array([[1.0]])[:, :0], b=np.ones(1), n=np.ones(1))
    assert answers(dense(NET, rows=rows), no_elements, ["a", "b", "n"])["y"].tolist() == [[]]


# --- the same numbers, whatever the batch ---------------------------------------------------------------------------

SENSITIVE = ("Atan", "Elu", "Celu", "Softplus", "Sin", "Selu")
"""Functions whose last bits depend on the batch, if onnxruntime is left alone."""


@pytest.mark.parametrize("op", SENSITIVE)
def test_the_answer_for_a_row_does_not_depend_on_how_many_there_are(op: str) -> None:
    events = flat(999)
    network = OnnxModel(function(op, 3))
    whole = network.columns(events, inputs=["a", "b", "n"], outputs=["p", "q", "r"])
    for size in (1, 2, 63, 64, 65, 500, 998):
        first = events_of(**{name: events[name][:size] for name in events.names})
        part = network.columns(first, inputs=["a", "b", "n"], outputs=["p", "q", "r"])
        assert all(np.array_equal(part[name], whole[name][:size]) for name in whole), size


@pytest.mark.parametrize("op", SENSITIVE)
def test_the_size_of_a_batch_changes_no_bit(op: str) -> None:
    events = flat(3001)
    found = [
        answers(function(op, 3), events, ["a", "b", "n"], ["p", "q", "r"], batch=batch)
        for batch in (None, 1, 100, 640, 100_000)
    ]
    assert all(np.array_equal(one[name], found[0][name]) for one in found for name in "pqr")


def test_batches_follow_the_memory_and_the_model_alone() -> None:
    small, large = dense(NET), dense(layers(3, 300, 300, 1))
    assert OnnxModel(small).rows == 16_384
    assert OnnxModel(large).rows == 256_000_000 // (16 + len(large)) // 64 * 64
    assert OnnxModel(large, memory="1MB").rows == 64
    assert OnnxModel(large, batch=100).rows == 128
    assert OnnxModel(dense(NET, rows=7), batch=100).rows == 7


def test_several_tasks_at_once_share_a_model() -> None:
    network = OnnxModel(dense(NET), batch=64)
    tables = [flat(seed=seed) for seed in range(8)]

    def evaluated(events: Events) -> Any:
        return network.columns(events, inputs=["a", "b", "n"], outputs="y")["y"]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(evaluated, tables))
    assert all(np.array_equal(one, evaluated(events)) for one, events in zip(together, tables, strict=True))


# --- what does not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "inputs", "outputs", "words"),
    [
        (dense(NET), ["a"], "y", ("'x' takes 3 columns, not 1", "inputs: x: float (N, 3)", "outputs: y: float (N, 1)")),
        (dense(NET), ["a", "b", "n"], ["y", "z"], ("output 'y' needs 1 name, not 2",)),
        (dense(layers(1, 2)), ["a"], "y", ("needs 2 names, not 1", "`null` in place of a name")),
        (dense(NET), {"X": ["a", "b", "n"]}, "y", ("no input 'X'", "did you mean 'x'?")),
        (dense(NET), ["a", "b", "n"], {"yy": "y"}, ("no output 'yy'", "did you mean 'y'?")),
        (TWO_OF_EACH, ["a"], {"label": "l"}, ("it has 3 inputs, and `inputs` does not say which",)),
        (TWO_OF_EACH, {"x": ["a", "b"], "z": "n"}, {"label": "l"}, ("its input 'k' gets no column",)),
        (TWO_OF_EACH, {"x": ["a", "b"], "z": "n", "k": "n"}, "l", ("2 outputs", "write `outputs: {sum: …}`")),
    ],
)
def test_what_does_not_fit_the_model_is_told_with_what_it_has(
    content: bytes, inputs: Any, outputs: Any, words: tuple[str, ...]
) -> None:
    with pytest.raises(CenoteError) as told:
        answers(content, flat(5), inputs, outputs)
    assert all(word in str(told.value) for word in words), str(told.value)


def test_an_output_that_is_no_tensor_says_how_to_get_one() -> None:
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("SequenceConstruct", ["x"], ["y"])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1])
    graph = helper.make_graph([node], "test", [given], [sequence])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(CenoteError, match="is not a tensor") as told:
        answers(made.SerializeToString(), flat(5), ["a"])
    assert "zipmap" in str(told.value)
    assert "y: seq(tensor(float))" in str(told.value)


def test_an_answer_for_all_rows_at_once_is_refused() -> None:
    mean = model([helper.make_node("ReduceMean", ["x"], ["y"], axes=[0])], {"x": ["N", 1]}, {"y": ["M", 1]})
    with pytest.raises(CenoteError, match=r"shape \(1, 1\) for 64 rows: not one for each row"):
        answers(mean, flat(5), ["a"])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (ak.Array([1.0, None, None]), "'bad' lacks 2 of its values"),
        (ak.Array([[1.0], None, [None]]), "'bad' lacks 2 of its values"),
        (ak.Array([[[1.0]], [], []]), "'bad' has lists of lists"),
        (np.zeros((3, 1, 1)), "'bad' has lists of lists"),
        (ak.Array(["a", "b", "c"]), "'bad' holds no numbers"),
        (ak.Array([{"p": 1.0}, {"p": 2.0}, {"p": 3.0}]), "'bad' holds no numbers"),
        (ak.Array([[1.0], [2.0, 3.0], []]), "'pt' and 'bad' have different numbers of elements"),
    ],
)
def test_columns_that_a_model_cannot_take_are_named(column: Any, words: str) -> None:
    events = events_of(pt=ak.Array([[1.0], [], []]), bad=column)
    with pytest.raises(ValueError, match=words):
        answers(dense(layers(2, 1)), events, ["pt", "bad"])


def test_options_without_a_missing_value_are_numbers() -> None:
    jets = ak.Array([[1.0], [2.0, 3.0]])
    found = answers(dense(layers(1, 1)), events_of(top=ak.max(jets, axis=1)), ["top"])["y"]
    assert np.array_equal(found, answers(dense(layers(1, 1)), events_of(top=np.array([1.0, 3.0])), ["top"])["y"])


def test_numbers_that_would_become_others_are_refused() -> None:
    whole = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": ["N"]},
        {"y": ["N"]},
        types={"x": TensorProto.INT32, "y": TensorProto.INT32},
    )
    assert answers(whole, flat(5), ["n"])["y"].dtype == np.int32
    with pytest.raises(ValueError, match="'a' holds float64, and the model takes int32"):
        answers(whole, flat(5), ["a"])
    with pytest.raises(ValueError, match="'event' has values that int32"):
        answers(whole, events_of(event=np.array([1, 2**40])), ["event"])
    with pytest.raises(ValueError, match="'a' has numbers that float32, which the model takes, cannot hold"):
        answers(dense(layers(1, 1)), events_of(a=np.array([1.0, -1e39, np.inf])), ["a"])
    odd = np.array([3.4e38, np.inf, np.nan])
    assert np.isnan(answers(dense(layers(1, 1)), events_of(a=odd), ["a"])["y"][2]), "what is odd already is handed on"


def test_what_is_no_model_is_refused_with_the_reason() -> None:
    with pytest.raises(CenoteError, match="the model is not an ONNX model that onnxruntime"):
        OnnxModel(b"not a model")


def test_a_gpu_that_is_not_there_is_an_error_only_where_one_is_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert OnnxModel(dense(NET), device="auto").rows
    with pytest.raises(CenoteError, match="cannot be evaluated with `device: cuda`"):
        OnnxModel(dense(NET), device="cuda")


def test_without_onnxruntime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(CenoteError, match=r"pip install 'cenote\[ml\]'"):
        OnnxModel(dense(NET))


# --- the operation --------------------------------------------------------------------------------------------------


def operation_of(**settings: Any) -> Inference:
    given = {"model": {"stage": "Train"}, "inputs": ["a", "b", "n"], "outputs": "score", **settings}
    return Inference.model_validate(given).for_stage("Score")


def test_a_model_that_a_stage_makes_is_taken_from_its_product() -> None:
    events = replace(flat(), products={"Train": dense(NET)})
    result = operation_of().run(events).events
    assert np.array_equal(result["score"], answers(dense(NET), events, ["a", "b", "n"])["y"])
    other = replace(flat(), products={"Train": dense(layers(3, 4, 1))})
    again = operation_of().run(other).events
    assert not np.array_equal(again["score"], result["score"])


def test_a_product_that_is_no_model_says_what_to_return() -> None:
    with pytest.raises(CenoteError, match=r"the product of stage 'Train' is a dict, no ONNX model"):
        operation_of().run(replace(flat(), products={"Train": {"weights": []}}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"outputs": ["p", "p"]}, "'p' is the name of two columns"),
        ({"outputs": [None]}, "should name at least one column"),
        ({"inputs": []}, "inputs"),
        ({"device": "tpu"}, "device"),
        ({"batch": 0}, "batch"),
        ({"memory": "10kB"}, "memory"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        operation_of(**settings)
