"""Check the pictures of a workflow against what its stages will make, and describe their columns to observers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.analysis.sources.interface import FileInfo, find_column
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import Observer, Render, Workflow
from cenote.planning.inputs.look import Inputs
from cenote.planning.plan import ColumnSnapshot
from cenote.planning.stages.resolve import SOURCE, Resolved, ResolvedStage, SchemaGroup, dataset_infos


def draw_context(workflow: Workflow, stage: str) -> DrawContext:
    """What pictures of a stage may need besides its product; the workflow's datasets know which others they replace."""
    infos = {info.own_name: info for info in dataset_infos(workflow)}
    variations = workflow.systematics.variations if workflow.systematics else ()
    return DrawContext(
        stage=stage,
        datasets={name: info for name, info in infos.items() if not info.stands_in},
        instead={one.name: {name: infos[other] for name, other in one.datasets.items()} for one in variations},
        sides={one.name: one.side for one in variations},
    )


def undrawable(workflow: Workflow, stages: Iterable[ResolvedStage]) -> list[Problem]:
    """What is wrong with pictures that stages ask for."""
    stages = list(stages)
    shapes = {stage.id: stage.operation.shape() for stage in stages}
    return [
        problem.at(workflow.place(*render.path))
        for stage in stages
        for render in stage.stage.render
        for problem in _problems(render, shapes, draw_context(workflow, stage.id))
    ]


def drawn_once(stages: Iterable[ResolvedStage]) -> list[str]:
    """Where one picture is drawn although one of each dataset is asked for."""
    return [
        f"stage '{stage.id}' adds datasets up: `when: dataset` draws one picture of all of them "
        "(`dataset_axis: true` in its params keeps them apart)"
        for stage in stages
        if any(render.per_dataset for render in stage.stage.render) and stage.operation.shape().per_dataset is False
    ]


def nan_shown_as_overflow(stages: Iterable[ResolvedStage]) -> list[str]:
    """Where events that have no value would be shown in the last bin, as far as operations tell."""
    by_id = {stage.id: stage for stage in stages}
    nan = {column: stage.id for stage in by_id.values() for column in stage.operation.leaves_nan()}
    found: dict[str, None] = {}
    for stage in by_id.values() if nan else ():
        for render in stage.stage.render:
            made_by = [*render.together.values()] or [stage.id]
            if (renderer := _renderer(render)) is not None and renderer.adds_overflow:
                filled = [by_id[one] for one in made_by if one in by_id]
                read = [
                    (one, name) for one in filled for name in one.reads if name in nan and not _cut(one, name, by_id)
                ]
                found.update({_nan_in(one, column, nan[column]): None for one, column in read})
    return list(found)


def _cut(stage: ResolvedStage, column: str, by_id: Mapping[str, ResolvedStage]) -> bool:
    """Whether a selection before a stage looks at a column: NaN fulfils no comparison."""
    todo, seen = [*stage.inputs], {stage.id}
    while todo:
        if (name := todo.pop()) in seen or name not in by_id:
            continue
        seen.add(name)
        before = by_id[name]
        if column in before.reads and not before.operation.keeps_every_event():
            return True
        todo += before.inputs
    return False


def _nan_in(stage: ResolvedStage, column: str, maker: str) -> str:
    return (
        f"stage '{stage.id}': `flow: sum` adds the overflow to the last bin, NaN included, and '{column}' of stage "
        f"'{maker}' is NaN for events without it; select `!isnan({column})` before"
    )


def _renderer(render: Render) -> Renderer | None:
    """None where there is no such renderer, or not with such settings."""
    if render.name not in registry.names(PluginKind.RENDERER):
        return None
    try:
        made: Renderer = registry.make(PluginKind.RENDERER, render.name, render.settings)
    except CenoteError:  # the check of the settings says so, with its place
        return None
    return made


def _problems(render: Render, shapes: Mapping[str, ProductShape], context: DrawContext) -> Iterator[Problem]:
    if (renderer := _renderer(render)) is None:
        return
    made_by = [*render.together.values()] or [context.stage]
    for stage in (stage for stage in made_by if stage in shapes):  # one that is not has a problem of its own
        if renderer.draws and shapes[stage].kind not in renderer.draws:
            yield _nothing_to_draw(render, renderer, shapes[stage], stage)
            return
    if not {*made_by} <= {*shapes}:
        return
    try:
        if render.together:
            named = {name: shapes[stage] for name, stage in render.together.items()}
            renderer.check_together(named, replace(context, stage=render.by or context.stage))
        else:
            renderer.check(shapes[context.stage], context)
    except CenoteError as problem:
        yield from problem.problems


def _nothing_to_draw(render: Render, renderer: Renderer, shape: ProductShape, stage: str) -> Problem:
    made = f"a product of kind '{shape.kind}'" if shape.kind else "no product"
    return Problem(
        errors.BAD_VALUE,
        f"{render.name} draws a {' or '.join(renderer.draws)}, and stage '{stage}' makes {made}",
        hint="write `render` at the stage that makes it, or name that stage with `from:`",
    )


# Describe the columns that stages and sources have, where observers ask for it: known from the plan alone.


DEFAULT_FOLDERS = {"hep.schema_snapshot": "schema", "hep.branches": "branches"}
"""Kind of observer → the folder below `products/` that its files go to, where it names none."""


def snapshots(workflow: Workflow, resolved: Resolved, inputs: Inputs) -> tuple[ColumnSnapshot, ...]:
    """What every observer asks for."""
    found: dict[str, ColumnSnapshot] = {}
    for observer in workflow.observers:
        folder = observer.out or DEFAULT_FOLDERS[observer.kind]
        for at in observer.at:
            name = f"{folder}/{at}"
            found[name] = ColumnSnapshot(name, _content(observer, at, workflow, resolved, inputs))
    return tuple(found.values())


def _content(observer: Observer, at: str, workflow: Workflow, resolved: Resolved, inputs: Inputs) -> dict[str, Any]:
    groups: list[dict[str, Any]] = [
        {"datasets": list(flavour.datasets), "columns": columns}
        for number, flavour in enumerate(resolved.flavours)
        if (columns := list(_columns(at, number, flavour, workflow, resolved, inputs)))
    ]
    if observer.kind == "hep.schema_snapshot":
        return {"kind": "schema_snapshot", "at": at, "groups": groups}
    fields = list(dict.fromkeys(column["name"] for group in groups for column in group["columns"]))
    return {"kind": "branches", "at": at, "n_fields": len(fields), "fields": fields}


def _columns(
    at: str, number: int, flavour: SchemaGroup, workflow: Workflow, resolved: Resolved, inputs: Inputs
) -> Iterator[dict[str, str]]:
    """Each column with its type, where files have it, and else with the stage that makes it."""
    what, _, rest = at.partition(".")
    stage = next(
        (one for one in resolved.stages if one.id == rest or (what == "write" and one.id == _maker(rest))), None
    )
    if what in ("read", "join", "project"):
        root, made = rest, dict.fromkeys(flavour.columns.get(rest) or (), SOURCE)
    elif stage is None or number not in stage.applied:
        return
    else:
        root, made = stage.root, dict(resolved.available.get((number, stage.id)) or {})
    kept = _written(rest, stage.applied[number].writes) if what == "write" and stage is not None else made
    infos = inputs.infos.get((flavour.datasets[0], root), ())
    for name in kept:
        maker = made.get(name, SOURCE)
        yield {
            "name": name,
            **({"type": _type(name, workflow, infos[0])} if maker == SOURCE and infos else {"stage": maker}),
        }


def _maker(rest: str) -> str:
    return rest.rpartition(".")[0]


def _written(rest: str, writes: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    number = rest.rpartition(".")[2]
    return writes[int(number)] if number.isdigit() and int(number) < len(writes) else ()


def _type(name: str, workflow: Workflow, info: FileInfo) -> str:
    branch = next((field.branch for field in workflow.fields if field.alias == name), name)
    known = find_column(branch, info.columns)
    return info.columns[known].type if known is not None else ""
