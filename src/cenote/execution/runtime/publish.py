"""Publish what a run computed: products in open formats, and their pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec import structs

from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.varied import as_varied
from cenote.analysis.products.interface import Product
from cenote.analysis.renderers.interface import Renderer
from cenote.common import errors, signals, storage
from cenote.common.errors import CenoteError, ErrorKind, words_of
from cenote.common.signals import Interrupted
from cenote.common.text import listed
from cenote.engine.messages import AnyEvent, TaskDone
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import FailureRecord, ProductRecord
from cenote.execution.runtime.task_specs import TaskSpecs
from cenote.execution.worker.results.skim import merge_parts
from cenote.execution.worker.results.store import DamagedResultError, Store, trusted_key
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.language.plugins import registry
from cenote.language.plugins.imports import digest_of_file
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import Render
from cenote.planning.fingerprint import digest_of
from cenote.planning.outputs.names import plot_stem, product_stem
from cenote.planning.plan import Plan, ProductPlan, maker_of
from cenote.planning.stages.drawable import draw_context


@dataclass
class Publication:
    """Everything that was published, and what could not be."""

    products: list[ProductRecord] = field(default_factory=list)
    failures: list[FailureRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What is odd about products, as their kinds and renderers see it, and the pictures that could not be drawn."""
    skims: set[Path] = field(default_factory=set)
    """Files that workers wrote, as far as their lists are published."""

    def blame(self, product: ProductPlan, kind: ErrorKind, message: str) -> None:
        """Something of a product is missing: the run is partial."""
        self.failures.append(FailureRecord(stage=product.stage, cause="error", kind=kind.name, message=message))

    def miss(self, product: ProductPlan, render: Render, message: str) -> None:
        """A picture is missing, which leaves the numbers whole, or a file that others compute with."""
        if registry.load(PluginKind.RENDERER, render.name).holds_numbers:
            self.blame(product, errors.RENDER_FAILED, message)
        else:
            self.warnings.append(f"stage '{product.stage}' has no picture: {message}")

    def add(self, other: Publication) -> None:
        """What was published elsewhere."""
        self.products += other.products
        self.failures += other.failures
        self.warnings += other.warnings
        self.skims |= other.skims


SNAPSHOTS = "observers:files"
"""Under this name it is noted which files observers left."""

PublishProgress = Callable[[int, int], None]
"""Called with how many products of how many have been saved and drawn."""


class Publisher:
    """Saves and draws products: in a thread beside the tasks that still run, as far as only code of ours is needed, and
    the rest when the run is over and that thread has ended: matplotlib draws one picture at a time."""

    def __init__(self, plan: Plan, store: Store, folder: RunFolder, specs: TaskSpecs) -> None:
        self._plan, self._store, self._folder, self._specs = plan, store, folder, specs
        self._steps = {step.stage: step for segment in plan.segments for step in segment.steps}
        self._by_task: dict[int, list[ProductPlan]] = {}
        for product in plan.products:
            self._by_task.setdefault(product.task, []).append(product)
        self._thread: ThreadPoolExecutor | None = None
        self._begun: dict[int, Future[Publication | None]] = {}
        """By task; None where its result was not to be had yet."""

    def hear(self, events: Iterable[AnyEvent]) -> None:
        """Publish what tasks have made; with the first of them, begin to import what draws."""
        for event in events:
            if isinstance(event, TaskDone):
                self._begin(event.task)

    def finish(self, progress: PublishProgress) -> Publication:
        """Publish what is left, wait for all, and remove what earlier runs published and this one did not."""
        publication, total = Publication(), len(self._plan.products)
        progress(0, total)
        left = dict(self._by_task)
        for task, begun in self._begun.items():
            with signals.raised():
                found = begun.result()
            if found is not None:
                publication.add(found)
                del left[task]
                progress(len(publication.products), total)
        with signals.raised():
            self.close()
        for products in left.values():
            publication.add(self._published(products))
            progress(len(publication.products), total)
        self._draw_together(publication)
        order = {product.name: number for number, product in enumerate(self._plan.products)}
        publication.products.sort(key=lambda published: order[published.name])
        _remove_stale(self._plan, self._folder, publication)
        _write_snapshots(self._plan, self._folder)
        return publication

    def close(self) -> None:
        """Begin nothing more, and wait for the picture that is being drawn."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _begin(self, task: int) -> None:
        if self._thread is None:
            if not self._draws:
                return
            self._thread = ThreadPoolExecutor(1)
            self._thread.submit(_import_renderers, self._plan)
        products = self._by_task.get(task, [])
        if products and all(map(_is_ours, products)):
            self._begun[task] = self._thread.submit(self._published_early, products)

    @cached_property
    def _draws(self) -> bool:
        """Whether there is anything to draw that other tasks need not wait for."""
        return any(product.renders and _is_ours(product) for product in self._plan.products)

    def _draw_together(self, publication: Publication) -> None:
        """Draw what shows products of several tasks, once all of them are there."""
        made = {product.name: product for product in self._plan.products}
        for number, record in enumerate(publication.products):
            product = made[record.name]
            plots = list(record.plots)
            for render in (render for render in product.renders if render.together):
                parts = {name: made[stage] for name, stage in render.together.items()}
                plots += self._drawn(product, render, parts, publication)
            publication.products[number] = structs.replace(record, plots=tuple(plots))

    def _drawn(
        self, product: ProductPlan, render: Render, parts: Mapping[str, ProductPlan], publication: Publication
    ) -> list[str]:
        plot = self._folder.plots / plot_stem(product.name, product.renders.index(render), render)
        words = f"{render.name} cannot draw {listed(parts)} together"
        drawn: list[Path] = []
        with _blamed(plot, words, partial(publication.miss, product, render)), signals.raised():
            renderer: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
            incomplete = any(self._specs.is_partial(part.task) for part in parts.values())
            context = draw_context(self._plan.workflow, render.by or "")
            context = replace(context, partial=incomplete, warn=publication.warnings.append)
            drawn = renderer.draw_together(self._values(parts), plot, context)
            WrittenFiles(self._folder.store).note(product.name, *drawn)
        return [_shown(path, self._folder) for path in drawn]

    def _values(self, parts: Mapping[str, ProductPlan]) -> dict[str, Any]:
        """Products by the names of a picture; one that is not there is an error."""
        found = {}
        for called, product in parts.items():
            bundle = self._bundle(product.task)
            if product.name not in bundle:
                raise errors.error(errors.RENDER_FAILED, f"stage '{product.stage}' left no product")
            found[called] = self._dressed(product, bundle[product.name])
        return found

    def _published_early(self, products: Sequence[ProductPlan]) -> Publication | None:
        return self._published(products) if self._bundle(products[0].task) else None

    def _bundle(self, task: int) -> dict[str, Any]:
        """The products of a task, of this run and of earlier ones, as far as they are there."""
        names = [name for name in self._specs.bundles(task) if name in self._store]
        return {product: value for name in names for product, value in self._store.read(name).items()}

    def _dressed(self, product: ProductPlan, value: Any) -> Any:
        """A product with what only pictures and tables need."""
        step = self._steps.get(product.stage)
        built_in = step is not None and step.op in registry.built_in_names(PluginKind.OPERATION)
        if step is None or not built_in or product.name != product.stage:
            return value
        operation: Operation = registry.make(PluginKind.OPERATION, step.op, step.params).for_stage(step.stage)
        return as_varied(operation, step.varied, step.fillings).dressed(value)

    def _published(self, products: Sequence[ProductPlan]) -> Publication:
        """Of one task, which lie together in the store: what thousands of them share is read once."""
        publication, task = Publication(), products[0].task
        bundle = self._bundle(task)
        self._folder.plots.mkdir(exist_ok=True)
        incomplete = self._specs.is_partial(task)
        for product in (product for product in products if product.name in bundle):
            value = self._dressed(product, bundle[product.name])
            _publish_one(self._plan, product, value, self._folder, publication, incomplete=incomplete)
        return publication


def _is_ours(product: ProductPlan) -> bool:
    """Whether only code of this package saves and draws it: other code may print, and end the process."""
    drawn = all(render.name in registry.built_in_names(PluginKind.RENDERER) for render in product.renders)
    return drawn and product.kind != "files" and product.kind in registry.built_in_names(PluginKind.PRODUCT)


def _import_renderers(plan: Plan) -> None:
    for name in {render.name for product in plan.products if _is_ours(product) for render in product.renders}:
        registry.load(PluginKind.RENDERER, name).warm_up()


def _write_snapshots(plan: Plan, folder: RunFolder) -> None:
    """The columns that observers asked for; the next run writes them again."""
    written = WrittenFiles(folder.store)
    for snapshot in plan.snapshots:
        target = folder.products / f"{snapshot.name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        written.note(SNAPSHOTS, storage.write_text(target, json.dumps(snapshot.content, indent=2) + "\n"))


def _remove_stale(plan: Plan, folder: RunFolder, publication: Publication) -> None:
    """Remove what earlier runs published and this one did not, except that of stages that were not chosen this time.

    Skims of stages that still write some stay until a whole list of them says that they are not part of it: tasks that
    are to be reused wrote them.
    """
    record = WrittenFiles(folder.store)
    writing = {stage.id for stage in plan.workflow.stages if stage.write}
    unchosen = plan.workflow.helpers | plan.workflow.left_out
    published = {folder.path / file for product in publication.products for file in (*product.files, *product.plots)}
    published |= publication.skims
    whole = {product.name for product in publication.products if not product.partial}
    kept: dict[Path, str] = {}
    stale: list[Path] = []
    for file, product in record.products().items():
        stage = maker_of(product)
        is_skim = product != stage
        if stage in unchosen or file in published or (is_skim and stage in writing and product not in whole):
            kept[file] = product
        else:
            stale.append(file)
    record.remove(stale)
    record.replace(kept)


def _publish_one(
    plan: Plan, product: ProductPlan, value: Any, folder: RunFolder, publication: Publication, *, incomplete: bool
) -> None:
    kind = product_kind(product.kind)
    target = folder.products / product_stem(product.name)
    written = WrittenFiles(folder.store)
    blame = partial(publication.blame, product, errors.STAGE_FAILED)
    with _blamed(target, "its product cannot be saved", blame):
        if product.kind == "files":
            parts, value = value, merge_parts(value, plan.writes_of(product.stage), folder.products)
            publication.skims.update(folder.products / one["path"] for one in (*parts, *value))
            written.note(product.name, *(folder.products / one["path"] for one in value))
        saved = kind.save(value, folder.products, target.name)
        for file in (file for file in saved if file.suffix == ".pkl"):  # reading it would execute what is in it
            Store(folder.store).write(_seal_name(file), digest_of_file(file))
        written.note(product.name, *saved)
        plots: list[Path] = []
        context = draw_context(plan.workflow, product.stage)
        context = replace(context, partial=incomplete, warn=publication.warnings.append)
        for number, render in enumerate(product.renders):
            if render.together:
                continue  # when all of them are there
            plot = folder.plots / plot_stem(product.name, number, render)
            words = f"{render.name} cannot draw it"
            with _blamed(plot, words, partial(publication.miss, product, render)), signals.raised():
                renderer: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
                draw = renderer.draw_each if render.per_dataset else renderer.draw
                drawn = draw(value, plot, context)
                written.note(product.name, *drawn)
                plots += drawn
        publication.warnings += [f"stage '{product.stage}': {words}" for words in kind.warnings(value)]
        publication.products.append(
            ProductRecord(
                name=product.name,
                kind=product.kind,
                files=tuple(_shown(path, folder) for path in saved),
                plots=tuple(_shown(path, folder) for path in plots),
                partial=incomplete,
                description=kind.describe(value),
                stage=product.stage,
            )
        )


def _shown(path: Path, folder: RunFolder) -> str:
    """Below the folder of the run, where it is there."""
    return str(path.relative_to(folder.path) if path.is_relative_to(folder.path) else path)


@contextmanager
def _blamed(target: Path, what: str, blame: Callable[[str], None]) -> Iterator[None]:
    """What somebody's code raises, be it SystemExit, is told of; what a disk refuses ends it all."""
    try:
        yield
    except Interrupted:
        raise
    except BaseException as problem:  # the summary says so
        if refused := storage.refusal(problem, target):
            raise refused from problem
        words = str(problem) if isinstance(problem, CenoteError) else words_of(problem)
        blame(f"{what}: {words}")


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


def seals_of_pickles(folder: RunFolder) -> set[str]:
    """Names in the store of the digests of all pickles among the products."""
    return {_seal_name(file) for file in folder.products.rglob("*.pkl")}


def _seal_name(file: Path) -> str:
    """Where the store keeps the digest of a pickle."""
    return digest_of(["pickle", file.name])


def product_kind(name: str) -> Product:
    """The kind of product of this name; a custom operation's own word is an `object`."""
    known = name if name in registry.names(PluginKind.PRODUCT) else "object"
    kind: Product = registry.load(PluginKind.PRODUCT, known)()
    return kind
