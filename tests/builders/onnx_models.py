"""Write small ONNX models: dense layers, one function, any nodes; and compute dense layers with numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Floats = NDArray[np.float32]
Sizes = Sequence[int | str]


def layers(*widths: int, seed: int = 1) -> list[tuple[Floats, Floats]]:
    """Weights and biases of dense layers."""
    random = np.random.default_rng(seed)
    return [
        (random.normal(0, 0.5, (before, after)).astype(np.float32), random.normal(0, 0.1, after).astype(np.float32))
        for before, after in pairwise(widths)
    ]


def dense(net: Sequence[tuple[Floats, Floats]], *, rows: int | str = "N") -> bytes:
    """A model of dense layers with ReLU between them and a sigmoid at the end: input `x`, output `y`."""
    nodes, numbers, last = [], [], "x"
    for number, (weights, biases) in enumerate(net):
        numbers += [numpy_helper.from_array(weights, f"w{number}"), numpy_helper.from_array(biases, f"b{number}")]
        nodes.append(helper.make_node("Gemm", [last, f"w{number}", f"b{number}"], [f"g{number}"]))
        final = number == len(net) - 1
        last = "y" if final else f"a{number}"
        nodes.append(helper.make_node("Sigmoid" if final else "Relu", [f"g{number}"], [last]))
    return model(nodes, {"x": [rows, len(net[0][0])]}, {"y": [rows, len(net[-1][1])]}, numbers=numbers)


def by_numpy(net: Sequence[tuple[Floats, Floats]], table: NDArray[Any]) -> NDArray[np.float64]:
    """What the same layers give in numpy."""
    values = np.asarray(table, dtype=np.float64)
    for weights, biases in net[:-1]:
        values = np.maximum(values @ weights + biases, 0)
    weights, biases = net[-1]
    answers: NDArray[np.float64] = 1 / (1 + np.exp(-(values @ weights + biases)))
    return answers


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sizes],
    outputs: Mapping[str, Sizes],
    *,
    numbers: Sequence[onnx.TensorProto] = (),
    types: Mapping[str, int] | None = None,
) -> bytes:
    """A model of these nodes; what `types` does not name is float32."""
    kinds = types or {}

    def described(tensors: Mapping[str, Sizes]) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), list(sizes))
            for name, sizes in tensors.items()
        ]

    graph = helper.make_graph(list(nodes), "test", described(inputs), described(outputs), list(numbers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def function(op: str, width: int) -> bytes:
    """A model that is one function of every number: input `x`, output `y`."""
    return model([helper.make_node(op, ["x"], ["y"])], {"x": ["N", width]}, {"y": ["N", width]})
