"""Write the JSON Schema of the language, so that editors complete and check while somebody types."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from cenote.language.execution import Elastic
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PLANNED, PluginKind
from cenote.language.plugins.settings import ALSO_WRITTEN, FILLED_IN, Described
from cenote.language.schema.document import AnalysisModel, FieldModel, JoinModel, WorkflowModel
from cenote.language.schema.stage import CredentialModel, EnvironmentModel, StageModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODE: JsonSchemaMode = "validation"


MERGED: tuple[Described, ...] = (AnalysisModel, CredentialModel, Elastic, EnvironmentModel, FieldModel, JoinModel)
"""Mappings that several files may write together: a key that is not in this one may be in another."""

_NAMES_DATA = [
    {"required": ["datasets"]},
    {
        "required": ["data"],
        "properties": {"data": {"anyOf": [{"required": ["datasets"]}, {"required": ["catalogue"]}]}},
    },
]
"""Ways in which a file names data: then it needs no analysis."""
_FROM_ELSEWHERE = [
    {"required": ["include"]},
    {"required": ["use"]},
    {"required": ["execution"], "properties": {"execution": {"required": ["profiles"]}}},
]
"""Ways in which a file names others that it is merged with."""
_DEMANDS: dict[Purpose, dict[str, Any]] = {
    "workflow": {
        "if": {"not": {"anyOf": _FROM_ELSEWHERE}},
        "then": {
            "anyOf": [{"required": ["analysis"]}, *_NAMES_DATA],
            "properties": {"analysis": {"required": ["stages"]}},
        },
    },
    "profile": {},
    "site": {"required": ["site"]},
}
"""What must be there besides what the models say."""


class _Untitled(GenerateJsonSchema):
    """Titles made from Python's names say nothing that the keys do not say."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's signature
        return False


Purpose = Literal["workflow", "profile", "site"]
"""What a file is: something to run, something that is merged under workflows, or what a site keeps for its users."""


def workflow_schema(purpose: Purpose = "workflow") -> dict[str, Any]:
    """What a file may hold, before it is merged with others."""
    schema: dict[str, Any] = _as_written(language_schema())
    for model in MERGED:
        schema["$defs"][model.__name__].pop("required", None)
    return {**schema, **_DEMANDS[purpose], "title": f"Cenote {purpose}"}


def _as_written(schema: Any) -> Any:  # Any: any part of a schema
    """With every form in which a value may be written, short ones too."""
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    usual = {key: _as_written(part) for key, part in schema.items()}
    forms, filled_in = usual.pop(ALSO_WRITTEN, None), usual.pop(FILLED_IN, ())
    if "required" in usual and filled_in:
        usual["required"] = [key for key in usual["required"] if key not in filled_in]
    if forms is None:
        return usual
    outside = {key: usual.pop(key) for key in ("description", "default") if key in usual}
    return {**outside, "anyOf": [*forms, usual]}


def language_schema() -> dict[str, Any]:
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
    stage["allOf"] = [_params_of(name, model, references[model, _MODE]) for name, model in operations.items()]
    root = definitions.pop(WorkflowModel.__name__)
    return {"$schema": DIALECT, **root, "title": "Cenote workflow", "$defs": dict(sorted(definitions.items()))}


def _settings(name: str) -> type[BaseModel]:
    model: type[BaseModel] = registry.load(PluginKind.OPERATION, name)
    return model


def _operation_names(written: dict[str, Any], operations: dict[str, type[BaseModel]]) -> dict[str, Any]:
    """Names to complete; any other text may be an operation of one's own."""
    names = sorted({*operations, *PLANNED.get(PluginKind.OPERATION, ()), *registry.built_in_names(PluginKind.RENDERER)})
    return {**written, "anyOf": [{"enum": names}, {"type": "string"}]}


def _params_of(name: str, model: type[BaseModel], reference: dict[str, Any]) -> dict[str, Any]:
    then: dict[str, Any] = {"properties": {"params": reference}}
    if any(info.is_required() for info in model.model_fields.values()):
        then["required"] = ["params"]
    return {"if": {"properties": {"op": {"const": name}}, "required": ["op"]}, "then": then}
