"""Draw both histograms of a product over each other, with their ratio below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cenote.diff.histograms import compare_histograms
from cenote.operations.support.events import DatasetInfo
from cenote.plan.outputs.names import product_stem
from cenote.plan.record import PlanRecord
from cenote.plugins.kinds import PluginKind
from cenote.plugins.registry import make
from cenote.renderers.interface import DrawContext, Renderer
from cenote.renderers.support import bins
from cenote.renderers.support.picture import file_name

BEFORE, AFTER = "before", "after"


def draw_both(name: str, before: Any, after: Any, folder: Path, plan: PlanRecord | None) -> tuple[str, ...]:
    """`folder/NAME.png`, and `.pdf`; a folder of this name with a picture of each dataset that differs, where the
    histograms keep datasets apart.

    The uncertainty of each side is its own (`split_ratio`): the runs may have read the same events.
    """
    infos = {one.name: DatasetInfo(one.name, one.eventtype or "mc") for one in plan.datasets} if plan else {}
    target = folder / product_stem(name)
    written: list[Path] = []
    for file, select in _selections(before, after, target, infos):
        renderer: Renderer = make(PluginKind.RENDERER, "hep.render.comparison", _settings(name, select))
        file.parent.mkdir(parents=True, exist_ok=True)
        written += renderer.draw_together({AFTER: after, BEFORE: before}, file, DrawContext(name, datasets=infos))
    return tuple(str(file) for file in written)


def _settings(name: str, select: Mapping[str, str]) -> dict[str, Any]:
    block = {
        "reference": AFTER,
        "target": BEFORE,
        "comparison": "split_ratio",
        "comparison_ylabel": f"{AFTER} / {BEFORE}",
    }
    looks = {"reference_color": "#c0392b", "target_color": "#1f4e79"}
    title = ", ".join((name, *select.values()))
    return {"comparison": {**block, **looks}, "legend": {"title": title}, "select": dict(select)}


def _selections(
    before: Any, after: Any, target: Path, infos: Mapping[str, DatasetInfo]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Where pictures go, and what they show of the histograms."""
    sides = [bins.roles(side, infos) for side in (before, after)]
    if any(side.dataset is None for side in sides) or not sides[1].free:
        yield target, {}
        return
    axis = after.axes[sides[1].dataset].name
    ours, theirs = (bins.dataset_names(side, roles) for side, roles in zip((before, after), sides, strict=True))
    for name in (one for one in theirs if one in ours):
        found, _ = compare_histograms(
            *(bins.only(side, axis, [name], stage=name) for side in (before, after)), shared="unknown"
        )
        if found is not None and found.differ:
            yield target / file_name(name), {axis: name}
