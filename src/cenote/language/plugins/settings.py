"""Declare settings: a class whose fields are YAML keys and whose docstrings are their documentation."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, get_type_hints

from pydantic import AliasChoices, BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from cenote.language.plugins.kinds import spare_pydantic_its_search
from cenote.language.plugins.quantities import DECIMAL, WHOLE, number_in, signed
from cenote.language.plugins.quantities import Memory as Memory
from cenote.language.plugins.quantities import Seconds as Seconds

spare_pydantic_its_search()  # before the first class is built

Described = type[Any]
"""A pydantic model, or a dataclass that pydantic validates: its fields are keys of a mapping."""


def is_described(kind: Any) -> bool:  # Any: anything that stands in an annotation
    """Whether this is a class whose fields are keys."""
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def fields_of(model: Described) -> Mapping[str, FieldInfo]:
    """The fields of a class whose fields are keys, as pydantic sees them."""
    if issubclass(model, BaseModel):
        return model.model_fields
    hints = get_type_hints(model, include_extras=True)
    return {field.name: FieldInfo.from_annotation(hints[field.name]) for field in fields(model)}


def _other_spellings(schema: dict[str, Any], model: Described) -> None:
    """JSON Schema has no aliases, so a key with two spellings becomes two keys, of which one may be demanded."""
    for info in fields_of(model).values():
        if not isinstance(info.validation_alias, AliasChoices):
            continue
        first, *others = (str(choice) for choice in info.validation_alias.choices)
        schema["properties"].update(dict.fromkeys(others, schema["properties"][first]))
        if first in schema.get("required", ()):
            schema["required"] = [key for key in schema["required"] if key != first]
            either = {"anyOf": [{"required": [spelling]} for spelling in (first, *others)]}
            schema.setdefault("allOf", []).append(either)


JsonSchema = dict[str, Any]
"""A part of a JSON Schema."""


ALSO_WRITTEN, FILLED_IN = "x-also-written", "x-filled-in"
"""Keys in JSON Schemas of settings: other forms of a value, and keys that may be left out of a mapping.

Pages describe the usual form; the schema for editors, which sees files as they are written, has all of them.
"""


class AlsoWritten:
    """Marks a value that may be written in other forms too, which a validator turns into the usual one."""

    def __init__(self, *forms: JsonSchema) -> None:
        self.forms = forms

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {**handler(schema), ALSO_WRITTEN: list(self.forms)}


def complete_schema(schema: dict[str, Any], model: Described) -> None:
    """What the JSON Schema of a class says beyond its types: the meaning of each key, and its other spellings."""
    for name, meaning in meanings(model).items():
        key = key_of(name, model)
        if key in schema.get("properties", {}):
            schema["properties"][key].setdefault("description", meaning)
    _other_spellings(schema, model)


def key_of(name: str, model: Described) -> str:
    """The key of a field, as files write it."""
    info = fields_of(model)[name]
    alias = info.validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else info.alias or name


def meanings(model: Described) -> dict[str, str]:
    """Field → the docstring below it, in the class that declared it last."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if is_described(parent) and parent is not BaseModel:
            own = docstrings_below(parent)
            found |= {name: own.get(name, "") for name in inspect.get_annotations(parent)}
    return {name: text for name, text in found.items() if text and name in fields_of(model)}


@cache
def docstrings_below(cls: type[Any]) -> dict[str, str]:
    """Annotated name → the string below it, from the source; nothing where there is no source.

    Read only for the schema and the documentation: parsing takes longer than declaring the class, and Python 3.11 does
    not survive it in two threads at once, as a worker with several slots would have it.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _as_written(part: Any, *, alone: bool = True) -> Any:  # Any: any part of pydantic's description of a class
    """The same, without pydantic's liberties: `true` is not a number, and `1` is not a flag. The text "5" is a number
    where nothing but a number can be meant (`alone`). Editors see it that way, by the JSON Schema, and so do people."""
    if isinstance(part, list | tuple):
        return type(part)(_as_written(one, alone=alone) for one in part)
    if not isinstance(part, dict) or _is_ours(part):
        return part
    match part.get("type"):
        case "bool":
            return {**part, "strict": True}
        case "float":
            return _quotable({**part, "strict": True}, DECIMAL) if alone else {**part, "strict": True}
        case "int":
            return _quotable(part, WHOLE) if alone else _before(_whole_number, part)
        case "union" | "tagged-union":
            alone = alone and not _may_be_text(part["choices"])
    return {key: value if key == "metadata" else _as_written(value, alone=alone) for key, value in part.items()}


def _may_be_text(part: Any) -> bool:
    """Whether a text, or a list of texts, is among what it describes; mappings of their own decide for themselves."""
    if isinstance(part, list | tuple):
        return any(map(_may_be_text, part))
    if not isinstance(part, dict) or part.get("type") in ("model", "dataclass", "definition-ref"):
        return False
    return part.get("type") in ("str", "any") or any(_may_be_text(part[key]) for key in part.keys() - {"metadata"})


def _quotable(part: Any, pattern: str) -> Any:
    """A number that may stand in quotes, in JSON Schemas too."""

    def described(schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {**handler(schema), ALSO_WRITTEN: [{"type": "string", "pattern": signed(pattern)}]}

    return {
        **_before(_whole_or_quoted if part["type"] == "int" else number_in, part),
        "metadata": {"pydantic_js_functions": [described]},
    }


def _before(function: Callable[[Any], Any], part: Any) -> Any:
    return core_schema.no_info_before_validator_function(function, part)


def _is_ours(part: Mapping[str, Any]) -> bool:
    """Whether it is as written already: classes hold the parts of others."""
    function = part.get("function")
    return isinstance(function, Mapping) and function.get("function") in (_whole_number, _whole_or_quoted, number_in)


def _whole_or_quoted(value: Any) -> Any:  # Any: whatever the YAML holds
    return _whole_number(number_in(value))


def _whole_number(value: Any) -> Any:  # Any: whatever the YAML holds
    """`5.0` may stand for 5, as in JSON Schema."""
    if isinstance(value, bool | str | bytes):
        raise PydanticKnownError("int_type")
    return value


class Settings(BaseModel):
    """Frozen, strict about unknown keys, documented by the docstring below each field."""

    short_forms: ClassVar[tuple[JsonSchema, ...]] = ()
    """What may stand in a file instead of a mapping, where a validator spells it out."""
    lists_are_short: ClassVar[bool] = False
    """Whether a list of these may stand where one is asked for."""
    filled_in: ClassVar[tuple[str, ...]] = ()
    """Keys that a file may leave out, because a validator fills them in."""
    spelt_out: ClassVar[dict[str, JsonSchema]] = {}
    """Keys that a validator replaces by others."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        arbitrary_types_allowed=True,
        json_schema_extra=complete_schema,
        defer_build=True,  # of the many classes of the language, a file needs the validators of a few
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Find at once what is wrong with a class that somebody else wrote."""
        if not cls.__module__.startswith("cenote."):
            cls.model_rebuild(raise_errors=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """With values as they are written."""
        found: CoreSchema = _as_written(handler(cls))  # `source` may be what this stands for in an annotation
        return found

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        """With everything that validators accept besides the fields."""
        reference = handler(schema)
        whole = handler.resolve_ref_schema(reference)
        whole.get("properties", {}).update(cls.spelt_out)
        several = [{"type": "array", "minItems": 1, "items": dict(reference)}] if cls.lists_are_short else []
        if cls.short_forms or several:
            whole[ALSO_WRITTEN] = [*cls.short_forms, *several]
        if cls.filled_in:
            whole[FILLED_IN] = list(cls.filled_in)
        return reference


class Plugin(Settings):
    """A plugin of any kind: its fields are its settings in YAML, its methods are what its kind asks for."""

    example: ClassVar[str] = ""
    """How it is used, as one would write it in a workflow."""

    mentions: ClassVar[tuple[str, ...] | None] = None
    """Which of `plugins.mentions.WORDS` its code names, beside the workflow; None where nobody looked."""

    @classmethod
    def maker_of(cls, method: str) -> type:
        """The class whose method it is: this one, or one that it derives from."""
        return next(one for one in cls.__mro__ if method in one.__dict__)

    @classmethod
    def warm_up(cls) -> None:
        """Import what only its methods use: workers ask for it before their first task, and the driver beside tasks for
        what draws; in one thread."""
