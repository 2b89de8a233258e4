"""State what the results of a run are called, and find those that would share a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path

from cenote import errors
from cenote.errors import CenoteError, Place, Problem
from cenote.language.workflow import Render, Workflow, Write
from cenote.plan.outputs.names import (
    PLOTS,
    PRODUCTS,
    REPORTS,
    plot_stem,
    product_stem,
    report_path,
    skim_path,
    whole_path,
)
from cenote.plan.outputs.outside import refused_name
from cenote.plan.plan import maker_of, skims_of
from cenote.plan.stages.resolve import Resolved, ResolvedStage
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.products.interface import Product
from cenote.renderers.interface import Renderer
from cenote.values import dataclass


def renders_of(workflow: Workflow, stage: ResolvedStage, kind: str) -> tuple[Render, ...]:
    """As written, `render: []` included; a stage that says nothing gets the usual picture of its product."""
    written = stage.stage.render
    alone = any(not render.together for render in written)
    if alone or workflow.origin(*stage.stage.path, "render") is not None:
        return written
    product: Product = registry.load(PluginKind.PRODUCT, kind)()
    renderer = product.default_renderer(stage.operation.shape())
    return written if renderer is None else (Render(name=renderer), *written)


@dataclass(frozen=True)
class _Claim:
    """A file that something will write."""

    folder: str
    stem: str
    endings: Collection[str]
    """Without the dot; empty where they are not known: then any."""
    by: str
    """In the words of a message: `the picture of stage 'Met'`."""
    place: Place | None
    hint: str
    written: str | None = None
    """The name as the file has it, where it has one."""

    def refused(self, allowed: Collection[str]) -> Problem | None:
        """Why nothing can be written there."""
        return refused_name(self.folder, self.stem, allowed=allowed, place=self.place, written=self.written)

    def meets(self, other: _Claim) -> bool:
        """Whether both write a file of one name."""
        return not self.endings or not other.endings or bool({*self.endings} & {*other.endings})

    @property
    def path(self) -> str:
        """As a message shows it."""
        return f"{self.folder}/{self.stem}" + (f".{next(iter(self.endings))}" if self.endings else "")


def output_clashes(workflow: Workflow, resolved: Resolved) -> list[Problem]:
    """Results that would overwrite each other, and names that cannot be."""
    problems: list[Problem] = []
    known: dict[tuple[str, str], list[_Claim]] = {}
    claims = [_claims(workflow, resolved, stage) for stage in resolved.stages]
    for stage in resolved.stages:
        problems += _reserved(workflow, stage)
    for claim in chain(*claims, _report_claims(workflow)):
        if refused := claim.refused(workflow.execution.write_outside):
            problems.append(refused)
            continue
        others = known.setdefault((claim.folder, claim.stem), [])
        first = next((other for other in others if other.meets(claim)), None)
        if first is not None and claim.place not in {problem.place for problem in problems}:
            problems.append(_clash(first, claim))
        others.append(claim)
    return problems


def _clash(first: _Claim, second: _Claim) -> Problem:
    return Problem(
        errors.OUTPUT_CLASH,
        f"{second.by} would overwrite {first.by}: both are {second.path}",
        place=second.place,
        details=(f"the other is at {first.place}",) if first.place else (),
        hint=second.hint,
    )


def _claims(workflow: Workflow, resolved: Resolved, stage: ResolvedStage) -> Iterator[_Claim]:
    at_id = workflow.place(*stage.stage.path, "id")
    kind = stage.product
    if kind is not None and not (stage.stage.varied and stage.stage.fillings):
        by = f"the product of stage '{stage.id}'"
        yield _Claim(PRODUCTS, product_stem(stage.id), (), by, at_id, "give one of the stages another id")
        for number, render in enumerate(renders_of(workflow, stage, kind)):
            yield from _picture_claims(workflow, stage, number, render)
    if stage.stage.write:
        by = f"the list of files of stage '{stage.id}'"
        yield _Claim(PRODUCTS, product_stem(skims_of(stage.id)), (), by, at_id, "give one of the stages another id")
    for write in stage.stage.write:
        for path in _skims(write, stage, resolved):
            yield _Claim(
                folder=PRODUCTS,
                stem=str(path.with_suffix("")),
                endings=(path.suffix.removeprefix("."),),
                by=f"a skim of stage '{stage.id}'",
                place=workflow.place(*write.path, "path"),
                hint="give one of them another `path`",
                written=write.path_template,
            )


def _picture_claims(workflow: Workflow, stage: ResolvedStage, number: int, render: Render) -> Iterator[_Claim]:
    try:
        renderer: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
    except CenoteError:
        return  # the language's check has said so
    for stem in renderer.stems(plot_stem(stage.id, number, render), stage.operation.shape().drawn):
        yield _Claim(
            folder=PLOTS,
            stem=stem,
            endings=renderer.endings,
            by=f"a picture of stage '{stage.id}'",
            place=workflow.place(*(render.path or stage.stage.path), "out" if render.path else "id"),
            hint="give one of the pictures another name with `out`",
            written=render.out,
        )


def _report_claims(workflow: Workflow) -> Iterator[_Claim]:
    for report in workflow.reports:
        for number, output in enumerate(report.outputs):
            name = report_path(output.path)
            yield _Claim(
                folder=REPORTS,
                stem=str(name.with_suffix("") if name.suffix else name),
                endings=(name.suffix.removeprefix("."),),
                by=f"a file of report '{report.id}'",
                place=workflow.place(*report.path, "outputs", number, "path"),
                hint="give one of them another `path`",
                written=output.path,
            )


def _skims(write: Write, stage: ResolvedStage, resolved: Resolved) -> Iterable[Path]:
    """The first file of each dataset; the others differ in the number of the part alone."""
    try:
        suffix = registry.load(PluginKind.SINK, write.kind).suffix
    except CenoteError:
        return []
    if write.per_run:
        return [whole_path(write.path_template, dataset=None, suffix=suffix)]
    part = None if write.per_dataset else "00000"
    datasets = [name for number in stage.applied for name in resolved.flavours[number].datasets]
    return [skim_path(write.path_template, dataset=name, part=part, suffix=suffix) for name in datasets]


def _reserved(workflow: Workflow, stage: ResolvedStage) -> Iterator[Problem]:
    if maker_of(stage.id) != stage.id:
        yield Problem(
            errors.BAD_VALUE,
            f"no stage can be called '{stage.id}': that is the list of files that stage '{maker_of(stage.id)}' writes",
            place=workflow.place(*stage.stage.path, "id"),
            hint="give the stage another id",
        )
