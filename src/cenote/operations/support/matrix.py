"""Write out patterns: an entry with a `matrix` of axes stands for one entry per combination of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from pydantic_core import PydanticCustomError


def combinations(entry: Any) -> Iterator[Any]:  # Any: whatever the YAML holds
    """An entry with a `matrix` of axes becomes one entry per combination; any other stays as it is."""
    if not isinstance(entry, Mapping) or "matrix" not in entry:
        yield entry
        return
    pattern = {key: value for key, value in entry.items() if key != "matrix"}
    axes = {str(axis): _axis_values(values) for axis, values in dict(entry["matrix"]).items()}
    for values in product(*axes.values()):
        yield _filled_in(pattern, dict(zip(axes, values, strict=True)))


def _axis_values(values: Any) -> list[Any]:  # Any: whatever the YAML holds
    if isinstance(values, Mapping):
        limits = values.get("range")
        if not isinstance(limits, Mapping) or "stop" not in limits:
            raise PydanticCustomError("bad_matrix", "a matrix axis is a list, or {range: {start, stop, step}}", {})
        return list(range(int(limits.get("start", 0)), int(limits["stop"]), int(limits.get("step", 1))))
    return list(values)


def _filled_in(value: Any, axes: Mapping[str, Any]) -> Any:  # Any: whatever the YAML holds
    if isinstance(value, str):
        for axis, inserted in axes.items():
            value = value.replace(f"{{{axis}}}", str(inserted))
        return value
    if isinstance(value, Mapping):
        return {key: _filled_in(inner, axes) for key, inner in value.items()}
    return [_filled_in(inner, axes) for inner in value] if isinstance(value, list) else value


def mapping_of(value: Any) -> Any:  # Any: whatever the YAML holds
    """A mapping written out: `matrix: {axes: {…}, mappings: [{target, source}]}` beside plain keys adds its own."""
    if not isinstance(value, Mapping) or not isinstance(value.get("matrix"), Mapping):
        return value
    matrix = value["matrix"]
    templates = matrix.get("mappings", matrix.get("templates"))
    if not isinstance(templates, list) or not isinstance(matrix.get("axes"), Mapping):
        raise PydanticCustomError("bad_matrix", "a matrix needs 'axes' and a list of 'mappings' {target, source}", {})
    found = {key: inner for key, inner in value.items() if key != "matrix"}
    for template in templates:
        for entry in combinations({**dict(template), "matrix": matrix["axes"]}):
            target = entry.get("target")
            if not isinstance(target, str) or target in found:
                raise PydanticCustomError(
                    "bad_matrix", "the matrix makes '{target}' twice, or without a name", {"target": target}
                )
            found[target] = entry.get("source")
    return found
