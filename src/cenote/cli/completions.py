"""Complete names on the command line: stages, plugins, profiles, runs, keys for `--set`.

A shell waits for the answer: files are read without being checked, and what is heavy is imported where it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from cenote.language.plugins.kinds import PluginKind

LARGEST_FILE = 4 << 20
"""Bytes of a workflow that is looked at while somebody types."""
DEEPEST_INCLUDE = 5

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""What click calls with what is typed so far."""


def complete_stage(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Stages of the workflow, or of the run, that the command names."""
    return [CompletionItem(stage) for stage in _stages(ctx) if stage.startswith(incomplete)]


def complete_stage_value(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The same for `STAGE=VALUE`."""
    return [CompletionItem(f"{item.value}=") for item in complete_stage(ctx, param, incomplete)]


def complete_plugin(kind: PluginKind) -> Complete:
    """Names of plugins of this kind."""
    return lambda _ctx, _param, incomplete: _plugins(kind, incomplete)


def complete_plugin_of_any_kind(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of plugins of the kind that `--kind` says."""
    return _plugins(PluginKind(ctx.params.get("kind") or PluginKind.OPERATION.value), incomplete)


def complete_profile(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of profiles; files where a path is being typed."""
    from cenote.language.layers.profiles import is_file_name, profile_names

    if is_file_name(incomplete) or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="file")]
    file = _file(ctx)
    names = profile_names(Path(file).parent if file else Path())
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_run(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders that hold a run, here or in `out`; other folders where none is meant."""
    from cenote.execution.runs.folder import RunFolder

    found = [path for pattern in ("*", "out/*") for path in Path().glob(pattern) if RunFolder(path).holds_run]
    runs = [CompletionItem(str(folder)) for folder in sorted(found) if str(folder).startswith(incomplete)]
    return runs or [CompletionItem(incomplete, type="dir")]


def complete_setting(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys for `--set`, as far as the next choice; names of backends and strategies behind their keys."""
    key, equals, value = incomplete.partition("=")
    if equals:
        kind = {"execution.backend": PluginKind.BACKEND, "execution.strategy": PluginKind.STRATEGY}.get(key)
        return [CompletionItem(f"{key}={item.value}") for item in (_plugins(kind, value) if kind else ())]
    return [CompletionItem(text) for text in settings_from(key, _document(ctx))]


def settings_from(typed: str, document: Mapping[str, Any]) -> list[str]:
    """`execution.po` → `execution.pools.gpu.`, …: an end with `=` takes a value, one with a dot has more below."""
    from cenote.language.schema.document import WorkflowModel

    *steps, partial = typed.split(".")
    below = dict(_below(WorkflowModel, document))
    for step in steps:
        below = dict(_below(*below[step])) if step in below else {}
    start = "".join(f"{step}." for step in steps)
    while True:
        found = [name for name in below if name.startswith(partial)]
        inner = dict(_below(*below[found[0]])) if len(found) == 1 else {}
        if not inner:
            return [f"{start}{name}{'.' if dict(_below(*below[name])) else '='}" for name in found]
        start, below, partial = f"{start}{found[0]}.", inner, ""  # one way only: go on to where there is a choice


def _below(annotation: Any, value: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Keys and names that may follow, each with its own type and what the workflow has there."""
    from cenote.language.plugins.settings import fields_of, is_described, key_of

    held = value if isinstance(value, dict) else {}
    for kind in _kinds(annotation):
        if is_described(kind):
            for name, field in fields_of(kind).items():
                key = key_of(name, kind)
                yield key, (field.annotation, held.get(key))
        elif get_origin(kind) in (dict, Mapping):
            yield from ((str(name), (get_args(kind)[1], inner)) for name, inner in held.items())
        elif get_origin(kind) in (list, tuple) and isinstance(value, list):
            for item in value:
                known = (item.get("id") or item.get("name")) if isinstance(item, dict) else None
                if isinstance(known, str):
                    yield known, (get_args(kind)[0], item)
    if annotation in (None, Any):
        yield from ((str(name), (None, inner)) for name, inner in held.items())


def _kinds(annotation: Any) -> Iterator[Any]:
    """The alternatives of a type."""
    if get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    elif get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    else:
        yield annotation


def _plugins(kind: PluginKind, incomplete: str) -> list[CompletionItem]:
    from cenote.language.plugins import registry

    return [CompletionItem(name) for name in registry.names(kind) if name.startswith(incomplete)]


def _stages(ctx: click.Context) -> list[str]:
    if (folder := ctx.params.get("folder")) is not None:
        from cenote.execution.runs.folder import RunFolder

        try:
            plan = json.loads(RunFolder(Path(folder)).plan.read_text(encoding="utf-8"))
            return [str(stage["id"]) for stage in plan["stages"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []
    analysis = _document(ctx).get("analysis")
    stages = analysis.get("stages") if isinstance(analysis, dict) else None
    found = stages if isinstance(stages, list) else []
    return [str(stage["id"]) for stage in found if isinstance(stage, dict) and "id" in stage]


def _document(ctx: click.Context) -> dict[str, Any]:
    file = _file(ctx)
    return _read(Path(file), depth=0) if file is not None and str(file) != "-" else {}


def _file(ctx: click.Context) -> str | Path | None:
    """The workflow; behind an option that still has no value, click leaves arguments as they were typed."""
    found: str | Path | None = ctx.params.get("file") or next(iter(ctx.args), None)
    return found


def _read(path: Path, *, depth: int) -> dict[str, Any]:
    """A workflow with what it includes; whatever cannot be read is not there."""
    import yaml

    try:
        if path.stat().st_size > LARGEST_FILE:
            return {}
        found = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    document: dict[str, Any] = found if isinstance(found, dict) else {}
    included = document.get("include") or []
    for name in [included] if isinstance(included, str) else included:
        if depth < DEEPEST_INCLUDE and isinstance(name, str):
            document = _together(_read(path.parent / name, depth=depth + 1), document)
    return document


def _together(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _together(below, value)
        else:
            merged[key] = [*below, *value] if isinstance(below, list) and isinstance(value, list) else value
    return merged
