"""The product `histogram`: summed in order, saved as UHI JSON and, where ROOT can hold it, as ROOT."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.products.interface import WEIGHTS_NOT_FINITE, Product
from cenote.analysis.products.support import fill_sums
from cenote.analysis.products.support.plain_names import plain_names
from cenote.analysis.products.support.root_file import root_file, th1d
from cenote.common.arrays import imported, later
from cenote.common.storage import appearing, write_text
from cenote.common.text import listed, plural
from cenote.common.units import format_count
from cenote.language.systematics import NOMINAL

if TYPE_CHECKING:
    import hist

    Histogram = hist.Hist[Any]
else:
    hist = later("hist")


MOST_CATEGORIES = 10_000
"""That a growing axis may come to: it is drawn, stored and merged by the name of each."""


def too_many_categories(axis: str, found: int) -> str:
    """The complaint about an axis whose values are no categories."""
    return f"axis '{axis}' would need a category for each of {found:,} values: give it bins, or type: regular"


class HistogramProduct(Product):
    """`hist.Hist` values with the same axes; categories that grow, and labels, may differ from part to part."""

    example: ClassVar[str] = """
    - id: MuonPt
      op: hep.hist
      params: {axes: [Muon_pt]}
    """

    def default_renderer(self, shape: ProductShape) -> str | None:
        """By the number of axes."""
        return {1: "hep.render.hist1d", 2: "hep.render.heatmap2d"}.get(len(shape.drawn))

    def merge(self, parts: Sequence[Any]) -> Any:
        """The sum in the order given. Growing categories become the sorted union."""
        if len(parts) == 1:
            return parts[0]
        total = hist.Hist(*_common_axes(parts), storage=parts[0].storage_type())
        whole = total.view(flow=True)
        places = [_places(part, total) for part in parts]
        for part, place in zip(parts, places, strict=True):
            view = part.view(flow=True)
            if view.shape == whole.shape and not any(axis.traits.growth for axis in total.axes):
                whole += view
            elif view.size:
                whole[np.ix_(*place)] += view
        fill_sums.merge_sums(parts, places, total)
        return total

    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """`<name>.json`, and `<name>.root` with one TH1, TH2 or TH3 per combination of categories."""
        import uhi.io.json  # heavy, and only needed at the end of a run

        document = fill_sums.written(value, uhi.io.json.default(value))
        written = [write_text(folder / f"{name}.json", json.dumps(document, default=uhi.io.json.default))]
        pieces = list(_numeric_pieces(value, name))
        if pieces:
            written.append(write_root(folder / f"{name}.root", pieces))
        return written

    def load(self, folder: Path, name: str) -> Any:
        """From `<name>.json`."""
        import uhi.io.json

        text = (folder / f"{name}.json").read_text(encoding="utf-8")
        document = json.loads(text, object_hook=uhi.io.json.object_hook)
        found: Any = hist.Hist(document)
        fill_sums.read_again(found, document)
        return found

    def warnings(self, value: Any) -> Sequence[str]:
        """Sums of weights that are NaN or infinite."""
        if value.storage_type is not hist.storage.Weight or not (broken := _not_finite(value)).any():
            return ()
        where = "".join(f", {words}" for words in _categories_of(value, broken))
        count = f"{np.count_nonzero(broken):,} of {plural(broken.size, 'bin')}"
        return (f"sums of weights are not finite in {count}{where}: {WEIGHTS_NOT_FINITE}",)

    def describe(self, value: Any) -> str:
        """`2 axes, 1200 bins, 1.2 M entries` (weighted: the sum of weights), those of the nominal analysis alone."""
        bins = math.prod(value.shape)
        axes = f"{plural(value.ndim, 'axis', 'axes')}, {plural(bins, 'bin')}"
        varied = [place for place, axis in enumerate(value.axes) if _is_text(axis) and NOMINAL in axis]
        counted = value[{varied[0]: hist.loc(NOMINAL)}] if varied and value.ndim > 1 else value
        total = counted.sum(flow=True)
        if value.storage_type is hist.storage.Weight:
            return f"{axes}, sum of weights {total.value:.6g}"
        return f"{axes}, {format_count(float(total))} entries"


def _not_finite(value: Histogram) -> NDArray[np.bool_]:
    """Which bins have sums of weights that are NaN or infinite."""
    view: Any = value.view(flow=True)  # Any: of sums and variances, which hist does not say
    found: NDArray[np.bool_] = ~(np.isfinite(view.value) & np.isfinite(view.variance))
    return found


def _categories_of(value: Histogram, bins: NDArray[np.bool_]) -> Iterator[str]:
    """`dataset odd`: the names along each axis of names where bins are marked."""
    for place, axis in enumerate(value.axes):
        if _is_text(axis):
            rows = np.moveaxis(bins, place, 0)
            names = [str(name) for name, row in zip(axis, rows, strict=False) if row.any()]
            yield from [f"{axis.name} {listed(names)}"] if names else []


def _is_text(axis: Any) -> bool:
    return isinstance(axis, hist.axis.StrCategory)


def _common_axes(parts: Sequence[Histogram]) -> list[Any]:
    """The axes of the sum. Raises ValueError when parts do not fit together."""
    axes: list[Any] = []
    for place, first in enumerate(parts[0].axes):
        alike = [part.axes[place] for part in parts]
        if first.traits.growth:
            axes.append(_union(alike))
        elif any(axis != first and _unlabelled(axis) != _unlabelled(first) for axis in alike):
            raise ValueError(f"histograms with different axes '{first.name}' cannot be added")
        else:
            axes.append(first)
    return axes


def _unlabelled(axis: Any) -> Any:  # Any: hist publishes no type of all axes
    """An axis without its label, which is only shown: parts of an earlier run may have another one."""
    found = copy(axis)
    found.label = ""
    return found


def _union(axes: Sequence[Any]) -> Any:
    """One axis with the categories of all, sorted. An axis that saw no value yet does not know if it holds text."""
    kind = next((type(axis) for axis in axes if len(axis)), type(axes[0]))
    categories = sorted({category for axis in axes for category in axis})
    name, label = axes[0].name, axes[0].label
    if len(categories) > MOST_CATEGORIES:
        raise ValueError(too_many_categories(name, len(categories)))
    # hist answers with the name where no label was given: given back, it would count as a label.
    return kind(categories, name=name, label="" if label == name else label, growth=True)


def _places(part: Histogram, total: Histogram) -> list[NDArray[np.int64]]:
    """Where the bins of a part lie in the sum, along each axis."""
    places = []
    for own, common in zip(part.axes, total.axes, strict=True):
        if common.traits.growth:
            found = {category: place for place, category in enumerate(common)}  # the axis itself looks through them all
            places.append(np.array([found[category] for category in own], dtype=np.int64))
        else:
            places.append(np.arange(own.extent))
    return places


def _numeric_pieces(value: Histogram, name: str) -> Iterator[tuple[str, Histogram]]:
    """`name_category` → histogram of the numeric axes, with the category as its title; nothing where ROOT has no such
    histogram."""
    categories = [place for place, axis in enumerate(value.axes) if fill_sums.is_category(axis)]
    if not 1 <= value.ndim - len(categories) <= 3:
        return
    if not categories:
        yield name, value
        return
    labels = list(product(*([str(label) for label in value.axes[place]] for place in categories)))
    called, sums = plain_names(labels), fill_sums.sums_of(value)
    places = product(*(range(len(value.axes[place])) for place in categories))
    for label, chosen in zip(labels, places, strict=True):
        where = dict(zip(categories, chosen, strict=True))
        piece: Any = value[tuple(where.get(place, slice(None)) for place in range(value.ndim))]
        piece.name = ", ".join(label)
        fill_sums.carry(piece, None if sums is None else sums[chosen])
        yield f"{name}_{called[label]}", piece


def write_root(target: Path, pieces: Sequence[tuple[str, Histogram]]) -> Path:
    """By ourselves where all of them are plain and in no folder (`folder/name`), as most are: uproot takes longer to
    import than a small run."""
    made = [(name, _for_root(piece)) for name, piece in pieces]
    plain = [one for name, piece in made if "/" not in name and (one := th1d(name, piece)) is not None]
    with appearing(target, under_its_name=True) as temporary:
        if len(plain) == len(made) == len({name for name, _ in made}):
            temporary.write_bytes(root_file(target.name, plain))
        else:
            write_by_uproot(temporary, made)
    return target


def write_by_uproot(target: Path, pieces: Sequence[tuple[str, Histogram]]) -> None:
    """Of any kind that ROOT has, with statistics as `th1d` has them; means become profiles, which are uproot's own."""
    uproot = imported("uproot")  # heavy, and only needed at the end of a run

    with uproot.recreate(target) as file:
        for name, piece in pieces:
            made = uproot.writing.identify.to_writable(piece)
            if piece.kind == "COUNT":
                _set_members(made, fill_sums.statistics(piece).members)
            file[name] = made


def _set_members(model: Any, members: Mapping[str, float]) -> None:  # Any: uproot publishes no types
    """Of an object that uproot made, and of the classes that it is derived from."""
    own = model._members  # noqa: SLF001  # uproot has no other way to change what it takes from bins
    own |= {name: value for name, value in members.items() if name in own}
    for parent in model._bases:  # noqa: SLF001  # the same
        _set_members(parent, members)


def _for_root(piece: Histogram) -> Histogram:
    """With storage that ROOT knows: counts become doubles, which hold them exactly up to 2**53."""
    if piece.storage_type is not hist.storage.Int64:
        return piece
    converted = hist.Hist(*piece.axes, storage=hist.storage.Double(), name=piece.name)
    converted.view(flow=True)[...] = piece.view(flow=True)
    fill_sums.carry(converted, fill_sums.sums_of(piece))
    return converted
