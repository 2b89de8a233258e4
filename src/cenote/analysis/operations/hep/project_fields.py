"""The operation `hep.project_fields`: columns under the names that the analysis uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.lookup import mapping_of
from cenote.analysis.operations.support.object_rows import refuse_all_existing
from cenote.common import errors
from cenote.common.text import column_name
from cenote.language.plugins.quantities import Shown
from cenote.language.plugins.settings import AlsoWritten

Aliases = Annotated[
    dict[str, str],
    BeforeValidator(mapping_of),
    Field(min_length=1),
    AlsoWritten({"type": "string"}, {"type": "object", "required": ["matrix"]}),
]


class ProjectFields(Operation):
    """Adds columns under other names. A column is read only where a later stage reads its new name."""

    example: ClassVar[str] = """
    - id: Names
      op: hep.project_fields
      params: {aliases: {met: MET_pt, "lepton_pt": Muon_pt}}
    """
    from_files: ClassVar[tuple[str, ...]] = ("aliases",)

    stream_id: Annotated[str, Shown()] = ""
    """The stream, for errors."""
    aliases: Aliases
    """New name → column; or a YAML or JSON file of them. `matrix: {axes: {i: [1, 2]}, mappings: [{target: "x{i}",
    source: "Branch{i}"}]}` adds one for each combination."""
    include_existing: bool = True
    """Whether the columns that were there stay."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `unknown-column` for a column that is not there, `column-clash` for a name that is."""
        missing = [name for name in self.aliases.values() if column_name(name, columns) not in columns]
        if missing:
            raise errors.CenoteError(self._unknown(name, columns) for name in missing)
        if self.include_existing:
            refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def _unknown(self, name: str, columns: Collection[str]) -> errors.Problem:
        of = f" of stream '{self.stream_id}'" if self.stream_id else ""
        words = f"stage '{self.stage}' gives another name to '{name}'{of}, which does not exist"
        return errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, columns, what="columns here")

    def adds(self) -> Collection[str]:
        """The new names."""
        return tuple(self.aliases)

    def copies(self) -> Mapping[str, str]:
        """Each of them is a column that is there."""
        return {alias: column_name(name, self._columns) for alias, name in self.aliases.items()}

    def keeps(self) -> Collection[str] | None:
        """The new names alone, where the others go."""
        return None if self.include_existing else self.adds()

    def run(self, events: Events) -> Result:
        """Add those whose columns are here; the others are not read by anybody."""
        added = {alias: events[name] for alias, name in self.aliases.items() if name in events}
        named = events.with_columns(added)
        return Result(named if self.include_existing else named.keep(added))
