"""Describe the columns that stages and sources have, where observers ask for it: known from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cenote.language.workflow import Observer, Workflow
from cenote.plan.inputs.look import Inputs
from cenote.plan.plan import ColumnSnapshot
from cenote.plan.stages.resolve import SOURCE, Resolved, SchemaGroup
from cenote.sources.interface import FileInfo, find_column

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
