"""State what the results of a run are called; refuse shared names, and places outside its folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

from cenote.analysis.products.interface import Product
from cenote.analysis.renderers.interface import Renderer
from cenote.common import errors, storage
from cenote.common.errors import CenoteError, Place, Problem
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import Render, Workflow, Write
from cenote.planning.outputs.names import (
    PLOTS,
    PRODUCTS,
    REPORTS,
    plot_stem,
    product_stem,
    report_path,
    skim_path,
    whole_path,
)
from cenote.planning.plan import Plan, maker_of, skims_of
from cenote.planning.stages.resolve import Resolved, ResolvedStage

# Refuse results that would lie outside the folder of their run, or under names that no file can have.


SETTING = "execution.write_outside"
_LONGEST_NAME = 200
"""Bytes of one part of a path. File systems take 255, of which endings and the names of unfinished files need some."""
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


def refused_name(
    folder: str, name: str, *, allowed: Collection[str], place: Place | None, written: str | None = None
) -> Problem | None:
    """What is wrong with putting a result there; `written` is the name as the file has it."""
    path, shown = PurePosixPath(name), errors.printable(repr(name if written is None else written))
    if written == "" or not path.name or _NOT_IN_NAMES.search(name):
        return Problem(errors.BAD_VALUE, f"{shown} cannot name a file", place=place, hint="for example muons/selected")
    longest = max(path.parts, key=lambda part: len(part.encode()))
    if len(longest.encode()) > _LONGEST_NAME:
        words = f"'{longest[:20]}…' is too long for the name of a file: at most {_LONGEST_NAME} bytes"
        return Problem(errors.BAD_VALUE, words, place=place, hint="shorten it")
    if path.is_absolute() and ".." not in path.parts:
        if any(_leads_into(Path(path), Path(one)) for one in allowed):
            return None
        hint = f"write a path below it, or allow the folder: `{SETTING}: [{PurePosixPath(written or name).parent}]`"
    elif ".." not in path.parts:
        return None
    else:
        hint = "write a path without `..`; folders such as sr/met are made as needed"
    words = f"{shown} is outside of the folder `{folder}/` of the run"
    return Problem(errors.BAD_VALUE, words, place=place, hint=hint)


def links_outside(plan: Plan, run: Path) -> Iterator[Problem]:
    """Results that links in the folder of the run, or in an allowed one, would lead elsewhere."""
    workflow = plan.workflow
    within = [storage.resolved(root) for root in (run, *map(Path, workflow.execution.write_outside))]
    places = {run / folder: None for folder in (PRODUCTS, PLOTS, REPORTS)}
    astray: set[Path] = set()
    for folder, place in (*places.items(), *(((run / path).parent, place) for place, path in _paths(plan, workflow))):
        target = storage.resolved(folder)
        if not any(target.is_relative_to(root) for root in within) and astray.isdisjoint((folder, *folder.parents)):
            astray.add(folder)
            words = f"a link leads from {folder} to {target}, outside of the run's folder"
            hint = f"remove the link, or allow its target: `{SETTING}: [{target}]`"
            yield Problem(errors.BAD_PATH, words, place=place, hint=hint)


def _paths(plan: Plan, workflow: Workflow) -> Iterator[tuple[Place | None, Path]]:
    """Every result that is named by the file, below the folder of the run."""
    for stage in workflow.stages:
        for write in stage.write:
            for dataset in plan.datasets:
                part = None if write.per_dataset else "00000"
                name = skim_path(write.path_template, dataset=dataset.own_name, part=part, suffix="")
                name = whole_path(write.path_template, dataset=None, suffix="") if write.per_run else name
                yield workflow.place(*write.path, "path"), Path(PRODUCTS) / name
    for report in workflow.reports:
        for number, output in enumerate(report.outputs):
            yield workflow.place(*report.path, "outputs", number, "path"), Path(REPORTS) / report_path(output.path)
    for product in plan.products:
        for number, render in enumerate(product.renders):
            yield workflow.place(*render.path, "out"), Path(PLOTS, plot_stem(product.name, number, render))


def _leads_into(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) and storage.resolved(path.parent).is_relative_to(storage.resolved(folder))


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
