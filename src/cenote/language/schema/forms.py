"""Hold the forms that values of the language share: names, counts, one-or-several, short forms.

Nothing here imports pydantic, so that values with these types stay light.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cenote.common.text import can_name_variables
from cenote.language.plugins.quantities import DECIMAL, WHOLE, Converted, Describe, number_in

if TYPE_CHECKING:
    from pydantic import ConfigDict, GetCoreSchemaHandler
    from pydantic_core import CoreSchema


def _complete_schema(schema: dict[str, Any], kind: type[Any]) -> None:  # Any: a JSON Schema, and any class
    from cenote.language.plugins.settings import complete_schema

    complete_schema(schema, kind)


WRITTEN: ConfigDict = {"extra": "forbid", "json_schema_extra": _complete_schema}
"""As `__pydantic_config__` of a dataclass: a mapping of a file can be validated to it; docstrings explain its keys."""


_BAD_NAME = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|^\.|^\s|\s$")


def _name(value: Any) -> str:  # Any: whatever the YAML holds
    text = str(value) if type(value) is int else value
    if not isinstance(text, str):
        raise ValueError("should be a name")
    if not text or _BAD_NAME.search(text):
        raise ValueError("should be a name without slashes that could also name a file")
    return text


def _folder(value: Any) -> str:  # Any: whatever the YAML holds
    if isinstance(value, str) and value.startswith("/") and ".." not in value.split("/"):
        return value
    raise ValueError("should be an absolute path of a folder, without `..`")


def _store_path(value: Any) -> str:  # Any: whatever the YAML holds
    if isinstance(value, str) and ".." not in value.split("/"):
        scheme, _, rest = value.partition("://")
        if value == IN_RUN or value.startswith(("/", "~/")) or (rest and scheme.isalnum() and scheme != "file"):
            return value
    raise ValueError(
        f"should be the path of a folder that begins with / or ~/, without `..`, an address such as s3://bucket/store, "
        f"or `{IN_RUN}`"
    )


def _variables(value: Any) -> str:  # Any: whatever the YAML holds
    if isinstance(value, str) and can_name_variables(value):
        return value
    raise ValueError("should be the name of an environment variable, or how several begin: ANALYSIS_*")


IN_RUN = "run"
"""In the place of a path: the run's own folder."""


def _quoted(pattern: str) -> Describe:
    """The schema of a number that may stand in quotes; limits are looked at after it is a number."""

    def described(usual: dict[str, Any]) -> dict[str, Any]:
        from cenote.language.plugins.settings import ALSO_WRITTEN

        return {**usual, ALSO_WRITTEN: [{"type": "string", "pattern": pattern}]}

    return described


def _whole(value: Any) -> int:  # Any: whatever the YAML holds
    value = number_in(value)
    if (type(value) is int) or (type(value) is float and value.is_integer()):
        return int(value)
    raise ValueError("should be a whole number")


_SHARE = r"^(100|[0-9]{1,2})(\.[0-9]{1,6})? ?%$"


def _files(value: Any) -> int | str:  # Any: whatever the YAML holds
    if isinstance(value, str) and re.fullmatch(_SHARE, value):
        return value
    try:
        number = _whole(value)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError("should be a number of files, or a share of them such as 5%")
    return number


def _flag(value: Any) -> bool:  # Any: whatever the YAML holds
    if isinstance(value, bool):
        return value
    raise ValueError("should be true or false")


def _number(value: Any) -> float:  # Any: whatever the YAML holds
    value = number_in(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ValueError("should be a number")


STRATEGY_ALIASES = {"default": "local"}
"""FAST-HEP's names of strategies."""


def strategy_name(name: Any) -> Any:  # Any: whatever the YAML holds
    """A strategy by its own name."""
    return STRATEGY_ALIASES.get(name, name) if isinstance(name, str) else name


PlainName = Annotated[str, Converted(_name, "name", lambda _: {"type": ["string", "integer"]})]
"""A name that may also name a file."""

Count = Annotated[int, Converted(_whole, "whole", _quoted(WHOLE), ge=0)]
"""A whole number, zero or more, with or without quotes."""

Positive = Annotated[int, Converted(_whole, "whole", _quoted(WHOLE), ge=1)]
"""A whole number, one or more, with or without quotes."""

SomeFiles = Annotated[
    int | str,
    Converted(
        _files,
        "files",
        lambda _: {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"{_SHARE}|{WHOLE}"}]},
    ),
]
"""A number of files, or a share of them: `5%`."""

Flag = Annotated[bool, Converted(_flag, "flag")]
"""True or false, and no number that might mean it."""

Amount = Annotated[float, Converted(_number, "number", _quoted(DECIMAL), ge=0, allow_inf_nan=False)]
"""A number, zero or more, with or without quotes."""

Factor = Annotated[float, Converted(_number, "number", _quoted(DECIMAL), gt=0, allow_inf_nan=False)]
"""A number above zero, with or without quotes."""

StrategyName = Annotated[str, Converted(strategy_name, "name")]
"""A strategy, by its own name or by that of FAST-HEP."""


class OneOrMany(Converted):
    """Marks a tuple field whose single item may be written without a list."""

    def __init__(self) -> None:
        super().__init__(_as_list, "list", lambda several: {"anyOf": [several.get("items", {}), several]})


def _as_list(value: Any) -> Any:  # Any: whatever the YAML holds
    return value if isinstance(value, list | tuple) or value is None else [value]


class OrText(Converted):
    """Marks a model that may be written as text, which then stands under this key."""

    def __init__(self, key: str) -> None:
        def expanded(value: Any) -> Any:  # Any: whatever the YAML holds
            return {key: value} if isinstance(value, str) else value

        super().__init__(expanded, "text", lambda usual: {"anyOf": [{"type": "string"}, usual]})


class OrNothing(Converted):
    """Marks a mapping whose key may stand without a value, which then is an empty mapping."""

    def __init__(self) -> None:
        super().__init__(_or_empty, "mapping", lambda usual: {"anyOf": [usual, {"type": "null"}]})


def _or_empty(value: Any) -> Any:  # Any: whatever the YAML holds
    return {} if value is None else value


class _Described:
    """Marks a mapping that a model of `schema/model.py` describes and checks."""

    def __init__(self, model: str) -> None:
        self._model = model

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        from cenote.language.schema import stage as model

        described = getattr(model, self._model)
        return core_schema.no_info_after_validator_function(described.model_dump, handler(described))


EnvironmentSpec = Annotated[Mapping[str, Any], _Described("EnvironmentModel"), OrText("type")]
"""The type of an environment and its settings, in one mapping."""

Credentials = Annotated[
    tuple[Annotated[Mapping[str, Any], _Described("CredentialModel"), OrText("type")], ...], OneOrMany()
]
"""The same of credentials: one, or a list."""

Folders = Annotated[tuple[Annotated[str, Converted(_folder, "folder")], ...], OneOrMany()]
"""One folder, or a list of folders, by absolute paths."""

StorePath = Annotated[str, Converted(_store_path, "folder")]
"""A folder that many runs share, an address, or `run`."""

VariableNames = Annotated[tuple[Annotated[str, Converted(_variables, "variables")], ...], OneOrMany()]
"""One environment variable, or a list; `NAME_*` is all that begin so."""

PlainNames = Annotated[tuple[str, ...], OneOrMany()]
"""One name, or a list of names."""

Free = dict[str, Any]
"""Keys that somebody else's settings describe."""
