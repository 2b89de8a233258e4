"""Make operations out of people's own functions and classes: the decorator `operation`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, cast

from pydantic import ConfigDict, Field, PrivateAttr, create_model

from cenote.analysis.operations.interface import Merge, Operation, Result, Scope, everything_seen
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.operations.support.kernels import Kernel
from cenote.analysis.operations.support.own_code import (
    Declared,
    OwnCode,
    Returned,
    field_name,
    fingerprint_of,
    own_code,
    parts_of,
    seeing_only,
)
from cenote.common import errors
from cenote.common.text import column_name, did_you_mean, listed
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
ColumnNames = Sequence[str] | str | Callable[..., Iterable[str]]
"""Names of columns, or a function of the params that gives them."""

OBJECT = "object"


@dataclass(frozen=True)
class Declaration:
    """The arguments of the decorator."""

    name: str
    reads: ColumnNames | None
    adds: ColumnNames
    keeps: ColumnNames | None
    filters: bool
    product: bool
    merge: Merge | None
    kernels: Mapping[str, Kernel]


class Params(dict[str, Any]):
    """The params of a stage, for functions that compute `reads` from them: `params["pt"]` or `params.pt`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class CustomOperation(Operation):
    """An operation made by the decorator; a subclass per function, with the function's parameters as fields."""

    model_config = ConfigDict(protected_namespaces=())
    takes_device_columns: ClassVar[bool] = True
    """Its author decides: a stage that asks for columns on a GPU gets them."""

    declaration: ClassVar[Declaration]
    code: ClassVar[OwnCode]
    field_names: ClassVar[dict[str, str]] = {}
    """Parameter → field, where a parameter is called like something that every operation has."""

    _ready: Any = PrivateAttr(default=None)

    @property
    def params(self) -> Params:
        """The settings by the names that the author gave them."""
        return Params({name: getattr(self, self.field_names[name]) for name in self.code.parameters})

    def reads(self) -> Sequence[str]:
        """As declared; without a declaration, the columns named in a parameter called `columns`."""
        if self.declaration.reads is None:
            return _listed(self.params.get("columns") or ())
        return self._names(self.declaration.reads)

    def facts(self) -> Sequence[str]:
        """None: own code asks `events.dataset`, and every name that it reads is a column."""
        return ()

    def adds(self) -> Sequence[str]:
        """As declared."""
        return self._names(self.declaration.adds)

    def keeps(self) -> Sequence[str] | None:
        """As declared."""
        return None if self.declaration.keeps is None else self._names(self.declaration.keeps)

    def _names(self, declared: ColumnNames) -> Sequence[str]:
        return _listed(self.code.of_params(declared, self.params) if callable(declared) else declared)

    def keeps_every_event(self) -> bool:
        """As declared."""
        return not self.declaration.filters and self.declaration.keeps is None

    def sees(self, dataset: DatasetInfo, datasets: Sequence[str], constants: Mapping[str, Any]) -> Mapping[str, Any]:
        """What its code names of these: `run` keeps the rest from it."""
        found = everything_seen(dataset, datasets, constants)
        return {word: seen for word, seen in found.items() if self.mentions is None or word in self.mentions}

    def prepare(self) -> None:
        """Make the instance of a class, and let it prepare itself."""
        self._ready = self.code.ready(self.params)

    def run(self, events: Events) -> Result:
        """Call the code with the columns it declared, and check what comes back."""
        if self._ready is None:
            self.prepare()
        declared = Declared(
            operation=self.declaration.name,
            stage=self.stage,
            reads=tuple(self.reads()),
            adds=tuple(self.adds()),
            filters=self.declaration.filters,
            product=self.declaration.product,
        )
        seen = events.keep(column_name(name, events.columns) for name in declared.reads)
        with declared.explained(), seeing_only(self.mentions, seen, self.declaration.name) as shown:
            returned = self._ready(shown)
        return self._going_on(events, parts_of(returned, declared, events))

    def _going_on(self, events: Events, parts: Returned) -> Result:
        going_on = events.with_columns(parts.columns) if parts.columns else events
        if parts.mask is not None:
            going_on = going_on.where(parts.mask)
        keeps = self.keeps()
        return Result(going_on if keeps is None else going_on.keep({*keeps, *self.adds()}), parts.product)

    def why_not_compiled(self) -> str | None:
        """Somebody's Python runs as it is."""
        return "it is own Python code"

    def kernels(self, events: Events) -> Mapping[str, Kernel]:  # noqa: ARG002  # the same for all
        """As declared, with the params of the stage."""
        return {name: one.with_params(self.params) for name, one in self.declaration.kernels.items()}

    def assembled(self, events: Events, columns: Mapping[str, Column]) -> Result:
        """What the code gives, if it computes these columns."""
        return self._going_on(events, Returned(columns=columns))

    def merge(self, parts: Sequence[Any]) -> Any | None:
        """By the declared function."""
        if self.declaration.merge is None:
            return None
        return parts[0] if len(parts) == 1 else self.declaration.merge(parts)


def operation(
    name: str,
    *,
    reads: ColumnNames | None = None,
    adds: ColumnNames = (),
    keeps: ColumnNames | None = None,
    filter: bool = False,  # noqa: A002  # the word people use
    scope: Literal["partition", "dataset", "run"] = "partition",
    product: str | bool | None = None,
    merge: Merge | None = None,
    kernels: Mapping[str, Kernel] | None = None,
) -> Callable[[Decorated], Decorated]:
    """Make an operation of a function or a class; it stays usable as what it is.

    A function takes the events, and the stage's params as keyword arguments; a class may have `prepare()`, called
    once per worker, and has `run(events)` or `__call__(events)`. They return what is declared: a mapping of columns
    (`adds`), one boolean per event (`filter`), a product; or a tuple of these in this order. `kernels` has for each
    column of `adds` how it is computed one value at a time, for modifiers that compile it.
    """

    def decorate(code: Decorated) -> Decorated:
        declaration = Declaration(name, reads, adds, keeps, filter, bool(product), merge, dict(kernels or {}))
        made = _made(declaration, own_code(f"operation '{name}'", code), Scope(scope), product)
        code.cenote_plugin = (PluginKind.OPERATION.value, name)  # type: ignore[attr-defined]  # read by the registry
        code.cenote_factory = made  # type: ignore[attr-defined]  # the same
        return code

    return decorate


def _made(declaration: Declaration, code: OwnCode, scope: Scope, product: str | bool | None) -> type[CustomOperation]:
    kind = _product_kind(product)
    if kind == OBJECT and declaration.merge is None and scope is Scope.PARTITION:
        raise errors.error(
            errors.BAD_PLUGIN,
            f"operation '{declaration.name}' makes a product '{product}' per partition, without a rule to merge them",
            hint="add merge=, a function of the list of products; or scope='run' to see all events at once",
        )
    _check_kernels(declaration, code)
    field_names = {parameter: field_name(parameter, CustomOperation) for parameter in code.parameters}
    fields: dict[str, Any] = {
        field_names[parameter]: (
            annotation,
            Field(default, alias=parameter if field_names[parameter] != parameter else None),
        )
        for parameter, (annotation, default) in code.parameters.items()
    }
    name, module, doc = str(code.source.__name__), str(code.source.__module__), inspect.getdoc(code.source)
    made = create_model(name, __base__=CustomOperation, __module__=module, __doc__=doc, **fields)
    made.scope, made.product, made.fingerprint = scope, kind, fingerprint_of(code.source)
    made.declaration, made.code, made.field_names = declaration, code, field_names
    return cast(type[CustomOperation], made)


def _check_kernels(declaration: Declaration, code: OwnCode) -> None:
    """Raise where kernels do not go with what is declared."""
    if not declaration.kernels:
        return
    what = f"operation '{declaration.name}'"
    if declaration.filters or declaration.product or callable(declaration.adds):
        raise errors.error(errors.BAD_PLUGIN, f"{what}: kernels compute columns: they need adds=, and nothing else")
    adds, given = set(_listed(declaration.adds)), set(declaration.kernels)
    if adds != given:
        raise errors.error(errors.BAD_PLUGIN, f"{what} adds {listed(adds)}, its kernels compute {listed(given)}")
    if callable(declaration.reads):
        return
    known = {*_listed(declaration.reads or ()), *adds}
    for column, one in declaration.kernels.items():
        for name in one.with_params(dict.fromkeys(code.parameters)).inputs:
            if name not in known:
                raise errors.error(
                    errors.BAD_PLUGIN,
                    f"{what}: the kernel of '{column}' takes '{name}', which is neither in reads= nor a param",
                    hint=did_you_mean(name, [*known, *code.parameters]),
                )


def _product_kind(product: str | bool | None) -> str | None:
    """A kind of product that is known; any other name is a plain object."""
    if not product:
        return None
    known = registry.names(PluginKind.PRODUCT)
    return product if isinstance(product, str) and product in known else OBJECT


def _listed(names: Iterable[str] | str) -> Sequence[str]:
    return (names,) if isinstance(names, str) else tuple(names)
