"""The operation `project`: keep some columns only."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import AliasChoices, Field

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.common import errors
from cenote.common.text import column_name

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm


class Project(Operation):
    """Drops columns. It reads none itself: a column that no later stage needs is not read from the files."""

    example: ClassVar[str] = """
    - id: Narrow
      op: project
      params: {keep: [speed, hour]}
    """

    keep: tuple[str, ...] = Field(validation_alias=AliasChoices("keep", "columns", "fields"), min_length=1)
    """Names of columns, or patterns such as `Muon_*`."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Patterns become names. Raises `unknown-column` for a name that is not there."""
        found = [(wanted, _matching(wanted, columns)) for wanted in self.keep]
        missing = [wanted for wanted, names in found if not names]
        if missing:
            raise errors.CenoteError(self._unknown(name, columns) for name in missing)
        names = tuple(dict.fromkeys(name for _, matching in found for name in matching))
        return super().resolve(columns).model_copy(update={"keep": names})

    def _unknown(self, name: str, columns: Collection[str]) -> errors.Problem:
        words = f"stage '{self.stage}' keeps '{name}', which does not exist"
        return errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, columns, what="columns here")

    def keeps(self) -> Collection[str]:
        """The columns that are kept."""
        return self.keep

    def part_for(self, column: str | None) -> Self:  # noqa: ARG002  # it adds none
        """No column: all events go on, whatever is kept."""
        return self.model_copy(update={"keep": ()})

    def why_not_compiled(self) -> str | None:
        """Nothing is computed."""
        return None

    def write_compiled(self, form: StageForm) -> None:
        """Keep them."""
        form.events = form.events.keep(self.keep)

    def run(self, events: Events) -> Result:
        """Keep them."""
        return Result(events.keep(self.keep))


def _matching(wanted: str, columns: Collection[str]) -> list[str]:
    if wanted in columns:
        return [wanted]
    return [name for name in columns if fnmatchcase(name, wanted) or name == column_name(wanted)]
