"""The operation `hep.hist`: fill a histogram."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AliasChoices, Field, PrivateAttr, field_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.compiled.sample_types import obstacle_in_any
from cenote.analysis.expressions.parser import ExpressionText, expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.hist.axis import Axis
from cenote.analysis.operations.hep.hist.filling import AxisFill, axis_fill, named_category
from cenote.analysis.operations.hep.hist.fillings import Filling, Weight, aligned, filled_with, with_systematics
from cenote.analysis.operations.interface import Operation, ProductShape, Result
from cenote.analysis.operations.support.evaluation import evaluate
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events, describes_dataset
from cenote.analysis.operations.support.varied import replaced_name
from cenote.analysis.products.support import fill_sums
from cenote.common.arrays import imported
from cenote.language.plugins.quantities import InOrder
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany
from cenote.language.systematics import NOMINAL, VARIATION_AXIS, Fillings

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm

DATASET_NAME = "dataset_name"


class ApplyTo(Settings):
    """Which datasets are varied."""

    eventtype: str | tuple[str, ...] | None = None
    """`mc`, `data`, or a list."""
    datasets: tuple[str, ...] | None = None
    """Names of datasets."""

    def includes(self, dataset: DatasetInfo) -> bool:
        """Whether the dataset is meant."""
        types = (self.eventtype,) if isinstance(self.eventtype, str) else self.eventtype
        return (types is None or dataset.eventtype in types) and (
            self.datasets is None or dataset.name in self.datasets
        )


class Variations(Settings):
    """The same histogram with several weights, along one more axis."""

    weights: Annotated[dict[str, ExpressionText], InOrder(), Field(min_length=1)]
    """Label → weight. Datasets that are not varied fill the label `nominal` only, with `weight_expr` or 1."""
    axis: str = "variation"
    """The name of the axis."""
    apply_to: ApplyTo = Field(default=ApplyTo(), validation_alias=AliasChoices("apply_to", "applies_to"))
    """`{eventtype: mc}`; by default every dataset is varied."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The categories of the axis; `nominal` is always one where some datasets are not varied."""
        everywhere = self.apply_to == ApplyTo()
        return tuple(self.weights) if everywhere or NOMINAL in self.weights else (NOMINAL, *self.weights)


class Hist(Operation):
    """Fills a histogram with every value of its axes: lists are opened, missing values left out, NaN overflows.

    Without any settings it takes the column that the stage is called after, with customary bins.

    A value that equals an edge belongs to the bin that begins there; with `overflow: false` the last edge belongs to
    the last bin. The edges of a regular axis are `low + i * (high - low) / nbins`, computed exactly from the
    decimals as they are written and rounded once to double precision: of 100 bins from 0 to 100, the one that begins at
    29 holds 29, and of 24 from -2.4 to 2.4 the one that begins at 0.2 holds 0.2. The `fill` of hist and
    boost-histogram multiplies and rounds down instead, which puts 29, 57 and 58 into the bins below: entries on an edge
    may lie one bin lower there. Numbers of single precision are compared as they are: the one nearest to 0.7 is
    0.69999999, below 0.7.

    The histograms in `products/NAME.root` have the entries, mean and standard deviation that ROOT's own have after the
    same fills: every entry counts one, beyond the bins too, and mean and spread are those of values within the bins.
    Where the sums of the values are not known, as in histograms of your own code, ROOT's answer from bins alone is
    written: the effective number of entries, and the centres of bins.
    """

    example: ClassVar[str] = """
    - id: MuonPt
      op: hep.hist
      params:
        dataset_axis: true
        weight_expr: weight
        axes:
          - {name: pt, type: regular, source: Muon_pt, bins: {nbins: 50, low: 0, high: 150}, label: "$p_T$ [GeV]"}
      render: {op: hep.render.hist1d}
    """

    product: ClassVar[str | None] = "histogram"
    takes_variations: ClassVar[bool] = True

    axes: Annotated[tuple[Axis, ...], OneOrMany()] = ()
    """`{name, type, source, bins, label, overflow}` each; a plain column name is enough for customary bins."""
    weight_expr: ExpressionText | None = Field(default=None, validation_alias=AliasChoices("weight_expr", "weight"))
    """A weight per event or per element. One that is missing where the axes have values is an error."""
    storage: Literal["count", "weighted"] | None = None
    """`count`: whole numbers, weights ignored; `weighted`: sums of weights and their variances (with weights)."""
    dataset_axis: bool | Axis | None = None
    """One more axis, in front: `true` for the dataset's name, or an axis of your own."""
    variations: Variations | None = None
    """Several weights in one pass."""

    _inferred: str | None = PrivateAttr(default=None)
    _fillings: Fillings | None = PrivateAttr(default=None)

    @field_validator("dataset_axis", mode="before")
    @classmethod
    def _named_dataset(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        return (
            {"name": "dataset", "type": "category", "source": DATASET_NAME, **given}
            if isinstance(given, Mapping)
            else given
        )

    @field_validator("axes")
    @classmethod
    def _names_differ(cls, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        names = [axis.name for axis in axes]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("bad_axis", "two axes are named '{name}'", {"name": twice})
        return axes

    def resolve(self, columns: Collection[str]) -> Self:
        """Without axes: the column that the stage is called after, else the newest one."""
        resolved = super().resolve(columns)
        if self.axes or not columns:
            return resolved
        wanted = _folded(self.stage)
        column = next((name for name in columns if _folded(name) == wanted), None) or list(columns)[-1]
        axis = Axis.model_validate(column)
        chosen = resolved.model_copy(update={"axes": (axis,)})
        chosen._inferred = f"no axes are given: filling '{column}', {_in_words(axis)}"  # noqa: SLF001  # a copy of itself
        return chosen

    def inferred_axis_note(self) -> str | None:
        """What `resolve` chose, for a warning; None when the author chose."""
        return self._inferred

    @property
    def weighted(self) -> bool:
        """Whether sums of weights are kept rather than counts."""
        weighed = self.weight_expr is not None or self.variations is not None
        return self.storage == "weighted" or (self.storage is None and weighed)

    def with_fillings(self, fillings: Fillings) -> Self:
        """Filled for variations of the workflow too; see `Operation.with_fillings`."""
        filling = self.model_copy()
        filling._fillings = fillings  # noqa: SLF001  # a copy of itself
        return filling

    @property
    def own_labels(self) -> tuple[str, ...]:
        """The categories of the axis of variations that its own weights fill."""
        return self.variations.labels if self.variations else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The categories of the axis of variations; empty where there is no such axis."""
        own = self.own_labels
        return own if self._fillings is None else tuple(dict.fromkeys([*own, *self._fillings.labels]))

    @property
    def variation_axis(self) -> str:
        """The name of the axis of variations."""
        return self.variations.axis if self.variations else VARIATION_AXIS

    def fillings_for(self, dataset: DatasetInfo) -> list[Filling]:
        """How a dataset fills it, one after the other."""
        own = [Filling(label, text) for label, text in self.weights(dataset).items()]
        return own if self._fillings is None else with_systematics(self, own, self._fillings, dataset)

    def reads(self) -> Collection[str]:
        """Columns of axes and weights."""
        varied = self.variations.weights.values() if self.variations else ()
        return self._names_with([self.weight_expr, *varied] if self.weighted else ())

    def reads_for(self, datasets: Collection[DatasetInfo]) -> Collection[str]:
        """Datasets that are not varied need none of the columns and weights of variations."""
        fillings = [filling for dataset in datasets for filling in self.fillings_for(dataset)]
        if all(filling.plain for filling in fillings):
            return self._names_with(dict.fromkeys(filling.weight for filling in fillings))
        names = (
            replaced_name(name, filling.columns)
            for filling in fillings
            for name in (filling.hist or self)._names_with([filling.weight])  # noqa: SLF001  # another one of these
        )
        return tuple(dict.fromkeys(names))

    def _names_with(self, weights: Iterable[str | None]) -> Collection[str]:
        own = [self.dataset_axis.source] if isinstance(self.dataset_axis, Axis) else []
        return self.names_in(*own, *(axis.source for axis in self.axes), *weights)

    def identity(self) -> Mapping[str, Any]:
        """The settings, and the categories along the axis of variations of the workflow."""
        usual = super().identity()
        labels = {} if self._fillings is None else {"labels": list(self.labels)}
        return {**usual, **labels}

    def looks_at(self, dataset: DatasetInfo, datasets: Sequence[str]) -> Mapping[str, Any]:
        """How the dataset fills it, and the names along the axis of datasets."""
        fillings = self.fillings_for(dataset)
        seen: dict[str, Any] = {}
        if self.variations is not None or self._fillings is not None:
            seen["fillings"] = [self._plain(filling) for filling in fillings]
            seen["unvaried"] = self._unvaried(dataset)
        along = [axis for filling in fillings for axis in (filling.hist or self).all_axes]
        if self.dataset_axis is True or any(map(is_dataset, along)):
            seen |= {"dataset": dataset.name, "datasets": list(datasets)}
        return seen

    def _plain(self, filling: Filling) -> dict[str, Any]:
        filled = filling.hist or self
        read = {name: replaced_name(name, filling.columns) for name in filled._names_with([filling.weight])}  # noqa: SLF001  # another one of these
        return {
            "label": filling.label,
            "weight": filling.weight and expression(filling.weight).normal(),
            "columns": {name: other for name, other in read.items() if other != name},
            "hist": None if filling.hist is None else filling.hist.identity(),
            "shifted": filling.shifted,
        }

    def dressed(self, product: Any) -> Any:  # Any: hist publishes no types
        """With the labels of the axes."""
        labels = {axis.name: axis.label or "" for axis in self.all_axes}
        found = product.copy()
        for axis in found.axes:
            axis.label = labels.get(axis.name, "")
        return found

    def shape(self) -> ProductShape:
        """Its axes; categories may turn out to be datasets or variations, so that they leave it open."""
        drawn = [axis.name for axis in self.axes if not describes_dataset(axis.source)]
        clear = all(axis.type != "category" for axis in self.axes)
        return ProductShape(
            "histogram",
            axes=tuple(axis.name for axis in self.axes) if clear and self.axes else None,
            binning=tuple(axis.cut for axis in self.axes) if clear else (),
            edges={axis.name: edges for axis in self.axes if (edges := axis.edges) is not None} if clear else {},
            drawn=tuple(drawn or [axis.name for axis in self.axes[:1]]),
            per_dataset=None if isinstance(self.dataset_axis, Axis) or not clear else bool(self.dataset_axis),
            variations=self.labels,
        )

    @classmethod
    def warm_up(cls) -> None:
        imported("hist")

    def keeps_every_event(self) -> bool:
        """It only looks at them."""
        return True

    def run(self, events: Events) -> Result:
        """Fill one histogram for these events."""
        if not self.all_axes and self.dataset_axis is not True:
            raise EvaluationError("a histogram needs axes, and there is no column to choose one from")
        product = filled_with(self, self.fillings_for(events.dataset), events)
        return Result(events, self.completed(product, events.dataset))

    def completed(self, product: Any, dataset: DatasetInfo) -> Any:  # Any: hist publishes no types
        """The histogram of a dataset, with what is nominal wherever a variation of the workflow does not change it."""
        unvaried = self._unvaried(dataset)
        if not unvaried:
            return product
        whole, labels, sums = product.view(flow=True), self.labels, fill_sums.sums_of(product)
        for label in unvaried:
            whole[..., labels.index(label)] = whole[..., labels.index(NOMINAL)]
            if sums is not None:
                sums[..., labels.index(label), :] = sums[..., labels.index(NOMINAL), :]
        return product

    def _unvaried(self, dataset: DatasetInfo) -> list[str]:
        """The variations of the workflow that leave a dataset as it is."""
        if self._fillings is None or self._fillings.label is not None or dataset.stands_in:
            return []
        return self._fillings.unvaried(dataset.name)

    def aligned(self, weights: Sequence[Weight], events: Events) -> list[Column]:
        """The values of its axes, and of weights, entry for entry."""
        texts = [*(axis.source for axis in self.all_axes), *(weight.text for weight in weights)]
        called = [weight.in_words for weight in weights]
        return aligned([evaluate(text, events) for text in texts], texts, events.size, called)

    def axis_fills(self, columns: Sequence[Column], events: Events) -> list[AxisFill]:
        """Its axes with what fills them, that of datasets included."""
        fills = [self.axis_fill_of(axis, column, events) for axis, column in zip(self.all_axes, columns, strict=False)]
        return [dataset_fill("dataset", "", events), *fills] if self.dataset_axis is True else fills

    def why_not_compiled(self) -> str | None:
        """What in its axes or weights has no compiled form."""
        axes = [axis for axis in self.all_axes if not is_dataset(axis)]
        if growing := next((axis for axis in axes if axis.type == "category" or axis.growing), None):
            return f"axis '{growing.name}' has categories"
        varied = self.variations.weights.values() if self.variations else ()
        weights = [self.weight_expr, *varied, *self._factors()] if self.weighted else []
        found = obstacle_in_any([*(axis.source for axis in axes), *weights])
        return found or next(filter(None, (hist.why_not_compiled() for hist in self._patched())), None)

    def _factors(self) -> Iterator[str]:
        if self._fillings is not None:
            yield from self._fillings.factors
            yield from (factor for shift in self._fillings.shifts for factor in shift.factors)

    def _patched(self) -> list[Hist]:
        shifts = self._fillings.shifts if self._fillings else ()
        return [Hist.model_validate(shift.params) for shift in shifts if shift.params is not None]

    def write_compiled(self, form: StageForm) -> None:
        """Fill one histogram for these events."""
        from cenote.analysis.operations.hep.hist.compiled import write_compiled  # only those who compile need it

        write_compiled(self, form)

    @property
    def all_axes(self) -> list[Axis]:
        """Those of the settings, in order."""
        return [self.dataset_axis, *self.axes] if isinstance(self.dataset_axis, Axis) else list(self.axes)

    def weights(self, dataset: DatasetInfo) -> Mapping[str | None, str | None]:
        """Label of a variation (None: there is no such axis) → weight (None: 1) for a dataset."""
        if self.variations is None:
            return {None: self.weight_expr if self.weighted else None}
        if not self.weighted:
            return {label: None for label in self.variations.weights}  # noqa: C420  # keeps the type of the keys
        if self.variations.apply_to.includes(dataset):
            return {label: text for label, text in self.variations.weights.items()}  # noqa: C416  # the same
        return {NOMINAL: self.weight_expr}

    def axis_fill_of(self, axis: Axis, values: Column, events: Events) -> AxisFill:
        """An axis and what fills it."""
        if is_dataset(axis):
            return dataset_fill(axis.name, axis.label or "", events)
        return axis_fill(axis, values)


def is_dataset(axis: Axis) -> bool:
    """Whether it is filled with the names of datasets."""
    return axis.bins is None and expression(axis.source).normal() == DATASET_NAME


def dataset_fill(name: str, label: str, events: Events) -> AxisFill:
    """An axis of datasets, filled at that of these events."""
    return named_category(name, label, events.datasets or (events.dataset.name,), events.dataset.name)


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace(".", "")


def _in_words(axis: Axis) -> str:
    bins = axis.model_dump(exclude_unset=True).get("bins") or {}
    return f"{bins.get('nbins')} bins from {bins.get('low'):g} to {bins.get('high'):g}"
