"""Check the pictures of a workflow against what its stages will make, before there is anything to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.language.workflow import Render, Workflow
from cenote.operations.interface import ProductShape
from cenote.plan.stages.resolve import ResolvedStage, dataset_infos
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.renderers.interface import DrawContext, Renderer


def undrawable(workflow: Workflow, stages: Iterable[ResolvedStage]) -> list[Problem]:
    """What is wrong with pictures that stages ask for."""
    datasets = {info.name: info for info in dataset_infos(workflow) if not info.stands_in}
    return [
        problem.at(workflow.place(*render.path))
        for stage in stages
        for render in stage.stage.render
        for problem in _problems(render, stage.operation.shape(), DrawContext(stage=stage.id, datasets=datasets))
    ]


def _problems(render: Render, shape: ProductShape, context: DrawContext) -> Iterator[Problem]:
    if render.name not in registry.names(PluginKind.RENDERER):
        return
    try:
        renderer: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
    except CenoteError:  # the check of the settings says so, with its place
        return
    if renderer.draws and shape.kind not in renderer.draws:
        yield _nothing_to_draw(render, renderer, shape, context.stage)
        return
    try:
        renderer.check(shape, context)
    except CenoteError as problem:
        yield from problem.problems


def _nothing_to_draw(render: Render, renderer: Renderer, shape: ProductShape, stage: str) -> Problem:
    made = f"a product of kind '{shape.kind}'" if shape.kind else "no product"
    return Problem(
        errors.BAD_VALUE,
        f"{render.name} draws a {' or '.join(renderer.draws)}, and stage '{stage}' makes {made}",
        hint="write `render` at the stage that makes it, or name that stage with `from:`",
    )
