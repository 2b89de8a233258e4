"""Run an operation for a variation: it reads other columns under the names that it knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cenote.analysis.operations.interface import Operation, ProductShape, Result
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common.text import column_name
from cenote.language.systematics import Fillings, Varied

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm


def as_varied(operation: Operation, varied: Varied | None, fillings: Fillings | None) -> Operation:
    """An operation as a stage runs it that variations changed, or that the plan added for one."""
    if fillings is not None:
        operation = operation.with_fillings(fillings)
    if varied is None or not (varied.columns or varied.beside):
        return operation
    return VariedOperation(inner=operation, how=varied)


def with_replaced(events: Events, columns: Mapping[str, str]) -> Events:
    """The events with other columns under these names, as far as those are there."""
    return events.with_columns({name: events.columns[other] for name, other in columns.items() if other in events})


def replaced_name(name: str, columns: Mapping[str, str]) -> str:
    """The column that is read instead of this one."""
    return columns.get(name) or columns.get(column_name(name)) or name


class VariedOperation(Operation):
    """Another operation, as it runs for a variation.

    Beside the nominal events: what it adds is added under names of the variation's own, and its events are the nominal
    ones. Else its events are the variation's, and columns have their usual names there.
    """

    inner: Any
    """The operation. Any: pydantic would look into it."""
    how: Any
    """A Varied. Any: the same."""

    @property
    def product(self) -> str | None:  # type: ignore[override]  # that of the other operation
        """Of the operation."""
        found: str | None = self.inner.product
        return None if self.how.beside else found

    @property
    def software(self) -> Mapping[str, str]:  # type: ignore[override]  # the same
        """Of the operation."""
        found: Mapping[str, str] = self.inner.software
        return found

    @property
    def fingerprint(self) -> str:  # type: ignore[override]  # the same
        """Of the operation."""
        return str(self.inner.fingerprint)

    def resolve(self, columns: Collection[str]) -> Self:
        """The operation resolved."""
        return self.model_copy(update={"inner": self.inner.resolve(columns)})

    def reads(self) -> Collection[str]:
        """What the operation reads, under its names in this variation."""
        return self._replaced(self.inner.reads())

    def reads_for(self, datasets: Collection[DatasetInfo]) -> Collection[str]:
        """The same for some datasets."""
        return self._replaced(self.inner.reads_for(datasets))

    def _replaced(self, names: Iterable[str]) -> Collection[str]:
        return tuple(dict.fromkeys(replaced_name(name, self.how.columns) for name in names))

    def facts(self) -> Collection[str]:
        """Those of the operation."""
        return tuple(self.inner.facts())

    def adds(self) -> Collection[str]:
        """What the operation adds; with events of its own, also what it took from the nominal ones."""
        own = self.inner.adds()
        return [self._twin(name) for name in own] if self.how.beside else [*own, *self._adopted()]

    def copies(self) -> Mapping[str, str]:
        """See `Operation.copies`; what is taken from the nominal events is read where somebody reads it."""
        copied = {name: replaced_name(other, self.how.columns) for name, other in self.inner.copies().items()}
        if self.how.beside:
            return {self._twin(name): other for name, other in copied.items()}
        return {**{name: self.how.columns[name] for name in self._adopted()}, **copied}

    def _adopted(self) -> list[str]:
        keeps, adds = self.inner.keeps(), self.inner.adds()
        return [name for name in self.how.columns if name not in adds and (keeps is None or name in keeps)]

    def _twin(self, name: str) -> str:
        return str(self.how.name_of(name))

    def keeps(self) -> Collection[str] | None:
        """Those of the operation."""
        found: Collection[str] | None = None if self.how.beside else self.inner.keeps()
        return found

    def keeps_every_event(self) -> bool:
        """Beside the nominal events, whatever it does; else as the operation."""
        return bool(self.how.beside or self.inner.keeps_every_event())

    def depends_on_files(self) -> Collection[str]:
        """Those of the operation."""
        return tuple(self.inner.depends_on_files())

    def check_files(self, files: Mapping[str, Path]) -> None:
        """By the operation."""
        self.inner.check_files(files)

    def depends_on_products(self) -> Collection[str]:
        """Those of the operation."""
        return tuple(self.inner.depends_on_products())

    def shape(self) -> ProductShape:
        """Of the operation."""
        found: ProductShape = self.inner.shape()
        return found

    def identity(self) -> Mapping[str, Any]:
        """Of the operation, and the columns that it reads instead of others."""
        return {"operation": self.inner.identity(), "columns": self._columns_replaced(), "beside": self.how.beside}

    def _columns_replaced(self) -> dict[str, str]:
        names = (*self.inner.reads(), *self.inner.copies().values())
        read = {name: replaced_name(name, self.how.columns) for name in names}
        return {name: other for name, other in read.items() if other != name}

    def part_for(self, column: str | None) -> Self:
        """The part of the operation."""
        return self.model_copy(update={"inner": self.inner.part_for(column and self._own_name(column))})

    def identity_of(self, column: str) -> Any:
        """Of the column that the operation adds, or that was taken from the nominal events."""
        if not self.how.beside and column not in self.inner.adds():
            return [column, replaced_name(column, self.how.columns)]
        part = self.part_for(column)
        return [part.inner.identity_of(self._own_name(column)), part.identity()]

    def _own_name(self, column: str) -> str:
        """What the operation calls a column that it adds."""
        if not self.how.beside:
            return column
        return next((name for name in self.inner.adds() if self._twin(name) == column), column)

    def sees(self, dataset: DatasetInfo, datasets: Sequence[str], constants: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the operation sees."""
        found: Mapping[str, Any] = self.inner.sees(dataset, datasets, constants)
        return found

    def dressed(self, product: Any) -> Any:
        """By the operation."""
        return self.inner.dressed(product)

    def as_params(self) -> dict[str, Any]:
        """The settings of the operation: what else there is travels with the stage."""
        found: dict[str, Any] = self.inner.as_params()
        return found

    def prepare(self) -> None:
        """By the operation."""
        self.inner.prepare()

    def run(self, events: Events) -> Result:
        """Run the operation on events whose columns are the variation's."""
        seen = with_replaced(events, self.how.columns)
        if not self.how.beside:
            found: Result = self.inner.run(seen)
            return found
        changed = self.inner.run(replace(seen, live=None)).events.columns
        return Result(
            events.with_columns({self._twin(name): changed[name] for name in self.inner.adds() if name in changed})
        )

    def why_not_compiled(self) -> str | None:
        """As for the operation."""
        found: str | None = self.inner.obstacle()
        return found

    def write_compiled(self, form: StageForm) -> None:
        """The compiled form of the operation, with the variation's columns."""
        before = form.events
        form.events = with_replaced(before, self.how.columns)
        self.inner.write_compiled(form)
        if self.how.beside:
            added = dict(form.added)
            form.added.clear()
            form.events = before
            for name, value in added.items():
                form.define(self._twin(name), value)

    def merge(self, parts: Sequence[Any]) -> Any | None:
        """By the operation."""
        return self.inner.merge(parts)
