"""Publish what a run computed: products in open formats, and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cenote import errors, signals, storage
from cenote.errors import CenoteError, ErrorKind, words_of
from cenote.plan.fingerprint import digest_of
from cenote.plan.outputs.names import plot_stem, product_stem
from cenote.plan.plan import Plan, ProductPlan, maker_of
from cenote.plugins import registry
from cenote.plugins.imports import digest_of_file
from cenote.plugins.kinds import PluginKind
from cenote.products.interface import Product
from cenote.renderers.interface import DrawContext, Renderer
from cenote.runs.folder import RunFolder
from cenote.runs.summary import FailureRecord, ProductRecord
from cenote.signals import Interrupted
from cenote.worker.results.run_key import trusted_key
from cenote.worker.results.skim import merge_parts
from cenote.worker.results.store import DamagedResultError, Store
from cenote.worker.results.written_files import WrittenFiles


@dataclass
class Publication:
    """Everything that was published, and the pictures that could not be drawn."""

    products: list[ProductRecord] = field(default_factory=list)
    failures: list[FailureRecord] = field(default_factory=list)
    skims: set[Path] = field(default_factory=set)
    """Files that workers wrote, as far as their lists are published."""


PublishProgress = Callable[[int, int], None]
"""Called with how many products of how many have been saved and drawn."""


def publish(
    plan: Plan, store: Store, folder: RunFolder, *, names: dict[str, str], partial: set[str], progress: PublishProgress
) -> Publication:
    """Save and draw every product that is there; `names` has where each lies in the store."""
    publication = Publication()
    folder.plots.mkdir(exist_ok=True)
    for name, together in _by_place(plan, names).items():
        bundle = store.read(name) if name in store else {}
        for product in together:
            if product.name in bundle:
                _publish_one(plan, product, bundle[product.name], folder, publication, partial=product.name in partial)
                progress(len(publication.products), len(plan.products))
    order = {product.name: number for number, product in enumerate(plan.products)}
    publication.products.sort(key=lambda published: order[published.name])
    _remove_stale(plan, folder, publication)
    return publication


def _remove_stale(plan: Plan, folder: RunFolder, publication: Publication) -> None:
    """Remove what earlier runs published and this one did not, except that of stages that were not chosen this time.

    Skims of stages that are still there stay until a whole list of them says that they are not part of it: tasks that
    are to be reused wrote them.
    """
    record = WrittenFiles(folder.store)
    stages = {stage.id for stage in plan.workflow.stages}
    unchosen = plan.workflow.helpers | plan.workflow.left_out
    published = {folder.path / file for product in publication.products for file in (*product.files, *product.plots)}
    published |= publication.skims
    whole = {product.name for product in publication.products if not product.partial}
    kept: dict[Path, str] = {}
    stale: list[Path] = []
    for file, product in record.products().items():
        stage = maker_of(product)
        is_skim = product != stage
        if stage in unchosen or file in published or (is_skim and stage in stages and product not in whole):
            kept[file] = product
        else:
            stale.append(file)
    record.remove(stale)
    record.replace(kept)


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
    target = folder.products / product_stem(product.name)
    written = WrittenFiles(folder.store)
    with _blamed(product, target, "its product cannot be saved", errors.STAGE_FAILED, publication):
        if product.kind == "files":
            parts, value = value, merge_parts(value, plan.writes_of(product.stage), folder.products)
            publication.skims.update(folder.products / one["path"] for one in (*parts, *value))
            written.note(product.name, *(folder.products / one["path"] for one in value))
        saved = kind.save(value, folder.products, target.name)
        for file in (file for file in saved if file.suffix == ".pkl"):  # reading it would execute what is in it
            Store(folder.store).write(_seal_name(file), digest_of_file(file))
        written.note(product.name, *saved)
        plots: list[Path] = []
        datasets = {info.name: info for info in plan.datasets}
        context = DrawContext(stage=product.stage, datasets=datasets, partial=partial)
        for number, render in enumerate(product.renders):
            plot = folder.plots / plot_stem(product.name, number, render)
            words = f"{render.name} cannot draw it"
            with _blamed(product, plot, words, errors.RENDER_FAILED, publication), signals.raised():
                renderer: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
                drawn = renderer.draw(value, plot, context)
                written.note(product.name, *drawn)
                plots += drawn
        publication.products.append(
            ProductRecord(
                name=product.name,
                kind=product.kind,
                files=tuple(_shown(path, folder) for path in saved),
                plots=tuple(_shown(path, folder) for path in plots),
                partial=partial,
                description=kind.describe(value),
                stage=product.stage,
            )
        )


def _shown(path: Path, folder: RunFolder) -> str:
    """Below the folder of the run, where it is there."""
    return str(path.relative_to(folder.path) if path.is_relative_to(folder.path) else path)


@contextmanager
def _blamed(product: ProductPlan, target: Path, what: str, kind: ErrorKind, publication: Publication) -> Iterator[None]:
    """What somebody's code raises, be it SystemExit, is a failure of that product; what a disk refuses ends it all."""
    try:
        yield
    except Interrupted:
        raise
    except BaseException as problem:  # the summary says so
        if refused := storage.refusal(problem, target):
            raise refused from problem
        words = str(problem) if isinstance(problem, CenoteError) else words_of(problem)
        publication.failures.append(
            FailureRecord(stage=product.stage, cause="error", kind=kind.name, message=f"{what}: {words}")
        )


def is_own_pickle(folder: RunFolder, file: Path) -> bool:
    """Whether a pickle among the products is what a run of this user wrote there."""
    key = trusted_key(folder.store)
    if key is None:
        return False
    try:
        digest: str = Store(folder.store, key).read(_seal_name(file))
    except DamagedResultError:
        return False
    return digest == digest_of_file(file)


def _seal_name(file: Path) -> str:
    """Where the store keeps the digest of a pickle."""
    return digest_of(["pickle", file.name])


def product_kind(name: str) -> Product:
    """The kind of product of this name; a custom operation's own word is an `object`."""
    known = name if name in registry.names(PluginKind.PRODUCT) else "object"
    kind: Product = registry.load(PluginKind.PRODUCT, known)()
    return kind
