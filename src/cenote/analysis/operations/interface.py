"""State what an operation is: what it reads, what it adds, what it does to events, what it produces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import PrivateAttr

from cenote.analysis.compiled.values import NotCompiledError
from cenote.analysis.expressions.parser import expression
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events, describes_dataset
from cenote.analysis.operations.support.kernels import Kernel
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins.quantities import NormalForm, in_order, plain
from cenote.language.plugins.settings import Plugin
from cenote.language.systematics import Fillings

if TYPE_CHECKING:  # importing it takes 20 ms, and only those who compile need it
    from cenote.analysis.operations.support.stage_form import StageForm


class Scope(Enum):
    """How much data one call of an operation sees."""

    PARTITION = "partition"
    DATASET = "dataset"
    RUN = "run"


@dataclass(frozen=True)
class Result:
    """What a call of `run` gives: the events for the next stage, and a product if the operation makes one."""

    events: Events
    product: Any | None = None


@dataclass(frozen=True)
class ProductShape:
    """What is known of a product before there is one: enough to say which pictures of it cannot be drawn."""

    kind: str | None
    """`histogram`, `cutflow`, …; None for a stage that makes none."""
    axes: tuple[str, ...] | None = None
    """Names of the axes of a histogram besides those of datasets and variations; None where only the data tells."""
    drawn: tuple[str, ...] = ()
    """Names of the axes of a histogram that its usual picture shows; empty where nothing is drawn unasked."""
    binning: tuple[str, ...] = ()
    """How each of these axes is cut into bins, in words: only equal ones can be compared. Empty where it is open."""
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Axis → the edges of its bins, where they are known and not too many."""
    per_dataset: bool | None = None
    """Whether datasets stay apart; None where only the data tells."""
    variations: tuple[str, ...] = ()
    """Names of its variations, where it has some."""


class Operation(Plugin):
    """Code that a stage runs. Its fields are the stage's `params`.

    Everything except `prepare` and `run` is called at plan time, without data.
    """

    scope: ClassVar[Scope] = Scope.PARTITION
    product: ClassVar[str | None] = None
    """The kind of product it makes (`histogram`, `cutflow`, `files`, `object`), or None."""
    software: ClassVar[Mapping[str, str]] = {}
    """Modules that workers need for it beyond what Cenote itself needs → the extra of Cenote that installs them."""
    from_files: ClassVar[tuple[str, ...]] = ()
    """Settings that may stand in a YAML or JSON file of their own, named instead of them."""
    fingerprint: ClassVar[str] = ""
    """Changes whenever the code gives other results for the same settings (custom: a hash of the source)."""
    takes_device_columns: ClassVar[bool] = False
    """Whether `run` can compute with columns that lie on a GPU, as `gpu.preload` puts them there."""

    names_are_columns: ClassVar[bool] = True
    """Whether names in its expressions mean columns, where there are some; else they may mean fields of objects."""

    takes_variations: ClassVar[bool] = False
    """Whether its product has room for all variations, along one more axis."""

    _stage: str = PrivateAttr(default="")
    _columns: Collection[str] = PrivateAttr(default=())

    @property
    def stage(self) -> str:
        """The id of the stage that runs this."""
        return self._stage

    def for_stage(self, stage: str) -> Self:
        """This operation, knowing which stage it serves."""
        named = self.model_copy()
        named._stage = stage  # noqa: SLF001  # a copy of itself
        return named

    def resolve(self, columns: Collection[str]) -> Self:
        """This operation with what it left open decided from the columns that are there, in their order."""
        resolved = self.model_copy()
        resolved._columns = columns  # noqa: SLF001  # a copy of itself
        return resolved

    def names_in(self, *texts: str | None) -> tuple[str, ...]:
        """The names that expressions read, each once: columns, constants, facts of the dataset."""
        return tuple(dict.fromkeys(name for text in texts if text is not None for name in expression(text).names))

    def reads(self) -> Collection[str]:
        """Names it reads. Constants and facts may be among them: the plan tells columns and the others apart."""
        return ()

    def reads_for(self, datasets: Collection[DatasetInfo]) -> Collection[str]:  # noqa: ARG002  # for operations that differ
        """Names it reads where only these datasets are: fewer than `reads`, where it treats datasets differently."""
        return self.reads()

    def facts(self) -> Collection[str]:
        """Of these names, those that are facts of the dataset where no column is called so."""
        return tuple(name for name in self.reads() if describes_dataset(name))

    def conditions(self) -> Collection[str]:
        """Expressions in its settings that must be one true or false per event."""
        return ()

    def adds(self) -> Collection[str]:
        """Columns it adds or replaces."""
        return ()

    def typed(self, events: Events) -> Mapping[str, Column]:
        """Columns that it adds, of the types they will have, for events whose columns have the right types and made-up
        values. Without those that only files, models or somebody's code can tell."""
        if self.obstacle() is not None or self._untyped(self.reads(), events):
            return {}
        found = self.run(events).events.columns
        return {name: found[name] for name in self.adds() if name in found}

    def _untyped(self, names: Iterable[str], events: Events) -> bool:
        """Whether one of these names means a column whose type is not known."""
        meant = [(name, column_name(name, self._columns)) for name in names]
        return any((one in self._columns or one in self.adds()) and name not in events for name, one in meant)

    def copies(self) -> Mapping[str, str]:
        """Column it adds → the column whose values it has: read only where something reads the new one.

        What `reads` names is read in any case. `run` adds the copies whose columns the events have.
        """
        return {}

    def leaves_nan(self) -> Collection[str]:
        """Those of the columns it adds that are NaN for events which have nothing to compute them from."""
        return ()

    def whose_columns(self) -> Literal["first", "last", "error"]:
        """Of branches that hold different columns of one name: whose counts; `error`: none, where it is read."""
        return "error"

    def keeps(self) -> Collection[str] | None:
        """The only columns for the next stage; None for all."""
        return None

    def keeps_every_event(self) -> bool:
        """Whether the events that come in go on, all of them, as they are, with columns added at the most.

        What is not sure says no: for a variation that changes what it reads, it then runs on events of its own.
        """
        return False

    def depends_on_files(self) -> Collection[str]:
        """Files that its results depend on, as its settings name them: beside the workflow, or absolute.

        They count for the results, and `plugins.resources.workflow_file` finds them on every worker.
        """
        return ()

    def check_files(self, files: Mapping[str, Path]) -> None:
        """Look at these files, by the names of the settings, while planning. Raises what is wrong with them."""

    def depends_on_products(self) -> Collection[str]:
        """Stages whose products it uses, which have to be among the `needs` of its own."""
        return ()

    def shape(self) -> ProductShape:
        """What its product will look like."""
        return ProductShape(self.product)

    def with_fillings(self, fillings: Fillings) -> Self:  # noqa: ARG002  # for histograms
        """This operation, filling its product for variations too; only what says so by `takes_variations` can."""
        return self

    def as_params(self) -> dict[str, Any]:
        """The settings as plain data: what travels to the workers."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def is_built_in(cls) -> bool:
        """Whether it comes with this package, whose tests prove what operations say of themselves."""
        return cls.__module__.startswith("cenote.")

    def identity(self) -> Mapping[str, Any]:
        """What of the settings, and of what `resolve` made of them, its results depend on; not how they are written.

        Plain data for content hashes: equal for two operations of one name only if they give the same bits, for the
        same events with the same columns under the names that `reads` has.
        """
        if not self.is_built_in():
            return {name: in_order(value) for name, value in NormalForm().of(self).items()}
        column = self._column_meant if self.names_are_columns else str
        return NormalForm(expression=lambda text: expression(text).normal(column)).of(self)

    def _column_meant(self, name: str) -> str:
        known = column_name(name, {*self._columns, *self.adds()})
        return known if known in self._columns else name

    def part_for(self, column: str | None) -> Self:  # noqa: ARG002  # for operations that have parts
        """The part that makes one of the columns it adds (None: that decides which events go on), as an operation of
        its own: it reads, sees and is identified by no more than that needs."""
        return self

    def identity_of(self, column: str) -> Any:  # Any: plain data
        """The same as `identity`, for the values of one of the columns that it adds."""
        return [column, self.part_for(column).identity()]

    def sees(self, dataset: DatasetInfo, datasets: Sequence[str], constants: Mapping[str, Any]) -> Mapping[str, Any]:
        """Beyond columns, all that its results for a dataset may depend on: facts of the dataset, names of all datasets
        of the run, constants. Plain data: of facts and constants those that its expressions name.

        Classes from elsewhere may look at everything, unless they say here what they look at.
        """
        besides = self.looks_at(dataset, datasets)
        if not self.is_built_in():
            return {**everything_seen(dataset, datasets, constants), **besides}
        names, facts = tuple(self.reads_for([dataset])), dataset.facts()
        named = {
            "facts": {name: plain(facts[name]) for name in names if name in facts},
            "constants": {name: plain(constants[name]) for name in names if name in constants},
        }
        return {**{kind: found for kind, found in named.items() if found}, **besides}

    def looks_at(self, dataset: DatasetInfo, datasets: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002  # as above
        """What it `sees` besides: where the code of a built-in operation, and not an expression, asks for it."""
        return {}

    def dressed(self, product: Any) -> Any:
        """A product with what is only shown, as the settings have it now: labels are no part of `identity`, and those
        of an earlier run may be others. The product that comes in stays as it is."""
        return product

    def prepare(self) -> None:
        """Once per worker before the first `run`: load a model, open a table."""

    @abstractmethod
    def run(self, events: Events) -> Result:
        """Do it for one partition (or dataset, or run: see `scope`)."""

    def kernels(self, events: Events) -> Mapping[str, Kernel]:  # noqa: ARG002  # for operations that have some
        """Column → how it can be computed one value at a time, for these events; empty where `run` is the only way.

        Later columns may take earlier ones. Raises NoKernelError with the reason why there is none.
        """
        return {}

    def assembled(self, events: Events, columns: Mapping[str, Column]) -> Result:
        """What `run` gives, from columns that its kernels computed."""
        return Result(events.with_columns(columns))

    def why_not_compiled(self) -> str | None:
        """Why it has no compiled form, in words that follow its stage's name; None where `write_compiled` gives one."""
        return "its operation has no compiled form"

    def obstacle(self) -> str | None:
        """Why it is not compiled. A class that only inherits the compiled form of another one may do something else."""
        if self.maker_of("run") is not self.maker_of("write_compiled"):
            return self.why_not_compiled() or Operation.why_not_compiled(self)
        return self.why_not_compiled()

    def write_compiled(self, form: StageForm) -> None:  # noqa: ARG002  # for operations that have one
        """Write what `run` does in typed values, so that it becomes machine code together with its neighbours.

        It must give what `run` gives, to the last bit. Raises NotCompiledError where these columns do not allow it.
        """
        raise NotCompiledError(self.why_not_compiled() or "its operation does not write it")

    def merge(self, parts: Sequence[Any]) -> Any | None:  # noqa: ARG002  # overridden where the product needs its own
        """Products of several partitions, in partition order, as one; None leaves it to the kind of product."""
        return None


def everything_seen(dataset: DatasetInfo, datasets: Sequence[str], constants: Mapping[str, Any]) -> dict[str, Any]:
    """What an operation sees that may look at anything, in any order."""
    return {
        "dataset": in_order(plain({one.name: getattr(dataset, one.name) for one in fields(dataset)})),
        "datasets": list(datasets),
        "constants": in_order(plain(constants)),
    }


Merge = Callable[[Sequence[Any]], Any]
