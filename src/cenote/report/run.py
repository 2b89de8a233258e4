"""Show a run to programs and notebooks: how it is, what it made, what went wrong."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_summary
from cenote.execution.runs.summary import ProductRecord, Summary
from cenote.execution.runtime.publish import is_own_pickle, product_kind
from cenote.planning.outputs.names import product_stem
from cenote.planning.record import as_json

_EXIT_CODES = {"succeeded": 0, "partial": 1, "failed": 20, "cancelled": 130}


class Run:
    """A run that has ended, or is in progress: what it left so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.status})"

    def _repr_html_(self) -> str:
        from cenote.report.notebook import run_as_html  # notebooks alone show it

        return run_as_html(self.folder, self.record)

    @cached_property
    def record(self) -> Summary | None:
        """What `summary.json` says, typed; None while the run is in progress."""
        with storage.explained():
            return read_summary(RunFolder(self.folder))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`; empty while the run is in progress."""
        return {} if self.record is None else as_json(self.record)

    @property
    def status(self) -> str:
        """`succeeded`, `partial`, `failed`, `cancelled`, or `running`."""
        return "running" if self.record is None else self.record.status

    @property
    def exit_code(self) -> int:
        """What the command line ends with."""
        code = _EXIT_CODES.get(self.status, 20)
        kinds = {kind.name: kind.exit_code for kind in errors.KINDS}
        if self.record is not None and self.status == "failed":
            return min((kinds[one.kind] for one in self.record.failures if one.kind in kinds), default=code)
        return code

    @property
    def products(self) -> tuple[str, ...]:
        """The names that `product` takes."""
        return tuple(product.name for product in self._products)

    @property
    def _products(self) -> tuple[ProductRecord, ...]:
        return () if self.record is None else self.record.products

    @property
    def plots(self) -> tuple[Path, ...]:
        """The pictures that were drawn, and the tables beside them."""
        return tuple(self.folder / plot for product in self._products for plot in product.plots)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """What failed, with stage, file, entries and message."""
        return list(self.summary.get("failures", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the run wants known."""
        return () if self.record is None else self.record.warnings

    def product(self, name: str, *, trust: bool = False) -> Any:
        """The product of a stage: a `hist.Hist`, a cutflow table, a list of files, or what an operation made.

        What an operation made may be a pickle, which executes code when it is read. It is read only if a run of yours
        wrote it, unless you `trust` its author.
        """
        for product in self._products:
            if product.name == name:
                file_name = product_stem(name)
                pickled = RunFolder(self.folder).products / f"{file_name}.pkl"
                if pickled.is_file() and not trust and not is_own_pickle(RunFolder(self.folder), pickled):
                    raise _not_trusted(name, pickled)
                return product_kind(product.kind).load(RunFolder(self.folder).products, file_name)
        raise KeyError(f"no product '{name}' here; there are: {', '.join(self.products) or 'none'}")


def _not_trusted(name: str, file: Path) -> CenoteError:
    return errors.error(
        errors.BAD_INPUT,
        f"{file} is a Python pickle that none of your runs wrote, or that changed since: loading it would execute it",
        hint=f"if you trust its author: product({name!r}, trust=True)",
    )
