"""This file publishes what a run computed: products in open formats, and their pictures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cenote.engine.messages import FailureInfo
from cenote.errors import CenoteError
from cenote.plan.outputs import plot_stem, product_stem
from cenote.plan.plan import Plan, ProductPlan
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.products.interface import Product
from cenote.renderers.interface import DrawContext, Renderer
from cenote.runtime.run_folder import RunFolder
from cenote.worker.skim import merge_parts
from cenote.worker.store import Store


@dataclass(frozen=True)
class Published:
    """One product, as the summary lists it."""

    name: str
    kind: str
    files: tuple[str, ...]
    """Relative to the run's folder."""
    plots: tuple[str, ...]
    partial: bool
    description: str


@dataclass
class Publication:
    """Everything that was published, and the pictures that could not be drawn."""

    products: list[Published] = field(default_factory=list)
    failures: list[FailureInfo] = field(default_factory=list)


Told = Callable[[int, int], None]
"""Told how many products of how many have been saved and drawn."""


def publish(
    plan: Plan, store: Store, folder: RunFolder, *, names: dict[str, str], partial: set[str], told: Told
) -> Publication:
    """Save and draw every product that is there; `names` has where each lies in the store."""
    publication = Publication()
    shutil.rmtree(folder.plots, ignore_errors=True)
    folder.plots.mkdir()
    for name, together in _by_place(plan, names).items():
        bundle = store.read(name) if name in store else {}
        for product in together:
            if product.name in bundle:
                _publish_one(plan, product, bundle[product.name], folder, publication, partial=product.name in partial)
                told(len(publication.products), len(plan.products))
    order = {product.name: number for number, product in enumerate(plan.products)}
    publication.products.sort(key=lambda published: order[published.name])
    return publication


def _by_place(plan: Plan, names: dict[str, str]) -> dict[str, list[ProductPlan]]:
    """Products that lie together in the store, so that what thousands of them share is read once."""
    found: dict[str, list[ProductPlan]] = {}
    for product in plan.products:
        if product.name in names:
            found.setdefault(names[product.name], []).append(product)
    return found


def _publish_one(
    plan: Plan, product: ProductPlan, value: Any, folder: RunFolder, publication: Publication, *, partial: bool
) -> None:
    kind = product_kind(product.kind)
    if product.kind == "files":
        value = merge_parts(value, plan.writes_of(product.stage), folder.products)
    saved = kind.save(value, folder.products, product_stem(product.name))
    plots: list[Path] = []
    for number, render in enumerate(product.renders):
        try:
            target = folder.plots / plot_stem(product.name, number, render)
            target.parent.mkdir(parents=True, exist_ok=True)
            plots += _draw(plan, product, value, number, target, partial=partial)
        except Exception as problem:
            words = str(problem) if isinstance(problem, CenoteError) else f"{type(problem).__name__}: {problem}"
            publication.failures.append(
                FailureInfo(
                    cause="error",
                    message=f"{render.name} cannot draw it: {words}",
                    stage=product.stage,
                    error_kind="render-failed",
                )
            )
    publication.products.append(
        Published(
            name=product.name,
            kind=product.kind,
            files=tuple(str(path.relative_to(folder.path)) for path in saved),
            plots=tuple(str(path.relative_to(folder.path)) for path in plots),
            partial=partial,
            description=kind.describe(value),
        )
    )


def _draw(plan: Plan, product: ProductPlan, value: Any, number: int, target: Path, *, partial: bool) -> list[Path]:
    render = product.renders[number]
    renderer: Renderer = registry.load(PluginKind.RENDERER, render.name).model_validate(dict(render.settings))
    context = DrawContext(
        stage=product.stage,
        datasets={info.name: info for info in plan.datasets},
        axis_labels=product.axis_labels,
        partial=partial,
    )
    return renderer.draw(value, target, context)


def product_kind(name: str) -> Product:
    """The kind of product of this name; a custom operation's own word is an `object`."""
    known = name if name in registry.names(PluginKind.PRODUCT) else "object"
    kind: Product = registry.load(PluginKind.PRODUCT, known)()
    return kind
