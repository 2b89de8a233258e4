"""State who decided a pool's settings: the workflow, a profile, the site, the command line, or nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cenote.language.layers.site import LAYER, is_site_layer
from cenote.language.systematics import KeyPath, Origin
from cenote.language.workflow import Workflow


def origins_of_pool(workflow: Workflow, pool: str) -> list[str]:
    """A line per layer: `workers, slots: command line`, `resources.memory: site.yaml:4`; the layer if it is one."""
    start: KeyPath = ("execution", "pools", pool)
    settings = {path[len(start) :]: origin for path, origin in workflow.origins.items() if path[: len(start)] == start}
    by_layer: dict[str, list[str]] = {}
    for path, origin in settings.items():
        if path and not _has_parts(path, settings):
            by_layer.setdefault(origin.layer, []).append(".".join(str(step) for step in path))
    if not by_layer:
        return ["built-in"]
    if len(by_layer) == 1:
        return [_where(layer, names, settings) for layer, names in by_layer.items()]
    return [f"{', '.join(names)}: {_where(layer, names, settings)}" for layer, names in by_layer.items()]


def given_by_site(workflow: Workflow) -> str | None:
    """What the site gave for all pools: `desy gives strategy, account, walltime`; None when it gave nothing."""
    given = {
        path[1:]: origin.layer
        for path, origin in workflow.origins.items()
        if path[:1] == ("execution",) and path[1:2] != ("pools",) and is_site_layer(origin.layer)
    }
    names = [".".join(map(str, path)).removeprefix("config.") for path in given if path and not _has_parts(path, given)]
    name = next(iter(given.values()), "").removeprefix(LAYER).strip(" ()")
    return f"{name or 'its file'} gives {', '.join(names)}" if names else None


def _has_parts(path: KeyPath, paths: Iterable[KeyPath]) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in paths)


def _where(layer: str, names: list[str], settings: Mapping[KeyPath, Origin]) -> str:
    """The layer with the first line of its settings, where a file and a line are known."""
    lines = [
        origin.place
        for path, origin in settings.items()
        if origin.layer == layer and origin.place is not None and ".".join(str(step) for step in path) in names
    ]
    if not lines:
        return layer
    first = min(lines)
    file = Path(first.file).name
    if layer.endswith(")"):  # site (desy)
        return f"{layer[:-1]}, {file}:{first.line})"
    return f"{layer}:{first.line}" if layer.endswith(file) else f"{layer} ({file}:{first.line})"
