"""This file writes the JSON Schema of the language, so that editors complete and check while somebody types."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from cenote.language.schema import WorkflowModel
from cenote.language.schema_stage import StageModel
from cenote.plugins import registry
from cenote.plugins.kinds import PLANNED, PluginKind

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODE: JsonSchemaMode = "validation"


class _Untitled(GenerateJsonSchema):
    """Titles made from Python's names say nothing that the keys do not say."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's signature
        return False


def workflow_schema() -> dict[str, Any]:
    """Every key of a workflow with its documentation, and the params of every operation that is built in."""
    operations = {name: _settings(name) for name in registry.built_in_names(PluginKind.OPERATION)}
    models: list[type[BaseModel]] = [WorkflowModel, *operations.values()]
    references, schema = models_json_schema(
        [(model, _MODE) for model in models], ref_template="#/$defs/{model}", schema_generator=_Untitled
    )
    definitions: dict[str, Any] = schema["$defs"]
    for definition in definitions.values():
        definition.pop("title", None)
    stage = definitions[StageModel.__name__]
    stage["properties"]["op"] = _operation_names(stage["properties"]["op"], operations)
    stage["allOf"] = [
        _params_of(name, references[model, _MODE], demanded=_demanded(model)) for name, model in operations.items()
    ]
    root = definitions.pop(WorkflowModel.__name__)
    return {"$schema": DIALECT, **root, "title": "Cenote workflow", "$defs": dict(sorted(definitions.items()))}


def _settings(name: str) -> type[BaseModel]:
    model: type[BaseModel] = registry.load(PluginKind.OPERATION, name)
    return model


def _operation_names(written: dict[str, Any], operations: dict[str, type[BaseModel]]) -> dict[str, Any]:
    """Names to complete; any other text may be an operation of one's own."""
    names = sorted({*operations, *PLANNED[PluginKind.OPERATION], *registry.built_in_names(PluginKind.RENDERER)})
    return {**written, "anyOf": [{"enum": names}, {"type": "string"}]}


def _demanded(model: type[BaseModel]) -> bool:
    """Whether the operation cannot do without params."""
    return any(info.is_required() for info in model.model_fields.values())


def _params_of(name: str, reference: dict[str, Any], *, demanded: bool) -> dict[str, Any]:
    then: dict[str, Any] = {"properties": {"params": reference}}
    if demanded:
        then["required"] = ["params"]
    return {"if": {"properties": {"op": {"const": name}}, "required": ["op"]}, "then": then}
