"""The operation `hep.align_schema`: columns renamed and cast to a schema that all datasets share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import cast
from cenote.analysis.operations.support.events import Events
from cenote.common import errors
from cenote.common.text import column_name
from cenote.language.plugins.settings import AlsoWritten, Settings
from cenote.language.schema.forms import OneOrMany

Number = Literal["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
Patterns = Annotated[tuple[str, ...], OneOrMany()]


class SchemaField(Settings):
    """Where a column of the schema comes from."""

    source: str | None = None
    """The column, where it has another name."""
    dtype: Number | None = None
    """The type of its numbers; without it, that of the column."""


class TargetSchema(Settings):
    """The columns that all datasets are to have."""

    version: Literal[1] = 1
    """`1`."""
    fields_: Annotated[dict[str, SchemaField | None], Field(alias="fields", min_length=1)]
    """Column → where it comes from; without a value, from the column of the same name."""


class AlignSchema(Operation):
    """Gives columns the names and types of a schema. Columns are read only where a later stage reads them."""

    example: ClassVar[str] = """
    - id: Align
      op: hep.align_schema
      params:
        schema: {fields: {met: {source: MET_pt, dtype: float32}, nMuon: {dtype: int64}}}
        drop: ["LHE*"]
    """
    from_files: ClassVar[tuple[str, ...]] = ("schema",)

    target: Annotated[TargetSchema, Field(alias="schema"), AlsoWritten({"type": "string"})]
    """`{fields: {name: {source, dtype}}}`, or a YAML or JSON file of it."""
    missing: Literal["error", "ignore"] = "error"
    """What happens where a column of the schema is not there: an error, or it is left out."""
    extra: Literal["keep", "drop"] = "keep"
    """What becomes of columns that the schema does not name."""
    keep: Patterns | None = None
    """Of these, only the ones that one of the names or patterns (`Muon_*`) matches stay."""
    drop: Patterns | None = None
    """Of these, the ones that match go."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.keep is not None and self.drop is not None:
            raise PydanticCustomError("one_of_two", "'keep' and 'drop' exclude each other", {})
        return self

    @property
    def _sources(self) -> dict[str, str]:
        return {name: (entry.source if entry else None) or name for name, entry in self.target.fields_.items()}

    def resolve(self, columns: Collection[str]) -> Self:
        """Patterns become names. Raises `unknown-column` for what is not there, unless that is to be ignored."""
        lost = {name: source for name, source in self._sources.items() if column_name(source, columns) not in columns}
        if lost and (self.missing == "error" or len(lost) == len(self._sources)):
            raise errors.CenoteError(self._unknown(source, columns) for source in lost.values())
        fields = {name: entry for name, entry in self.target.fields_.items() if name not in lost}
        update: dict[str, Any] = {
            "target": self.target.model_copy(update={"fields_": fields}),
            "keep": None,
            "drop": None,
        }
        kept = [name for name in columns if name not in fields and self._stays(name)]
        if self.keep is not None or self.drop is not None or self.extra == "drop":
            update |= {"keep": tuple(kept)}
        return super().resolve(columns).model_copy(update=update)

    def _stays(self, name: str) -> bool:
        if self.keep is not None:
            return any(fnmatchcase(name, pattern) for pattern in self.keep)
        return self.extra == "keep" and not any(fnmatchcase(name, pattern) for pattern in self.drop or ())

    def _unknown(self, name: str, columns: Collection[str]) -> errors.Problem:
        words = f"stage '{self.stage}' takes '{name}' for its schema, which does not exist"
        return errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, columns, what="columns here")

    def adds(self) -> Collection[str]:
        """The columns of the schema."""
        return tuple(self.target.fields_)

    def copies(self) -> Mapping[str, str]:
        """Each comes from a column that is there."""
        return {name: column_name(source, self._columns) for name, source in self._sources.items()}

    def keeps(self) -> Collection[str] | None:
        """The columns of the schema and those that stay beside them; None where all do."""
        return None if self.keep is None else (*self.adds(), *self.keep)

    def run(self, events: Events) -> Result:
        """Take the columns that are here; the others are not read by anybody."""
        fields = self.target.fields_
        found = {
            name: cast(events[source], entry.dtype if (entry := fields[name]) else None, f"column '{name}'")
            for name, source in self._sources.items()
            if source in events
        }
        aligned = events.with_columns(found)
        return Result(aligned if self.keep is None else aligned.keep({*found, *self.keep}))
