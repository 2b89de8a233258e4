"""Keep the warm processes that workers of this machine are forked from, and say what they import."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cenote.execution.worker.process.forking import WarmProcess, can_fork
from cenote.execution.worker.task_spec import RunSpec
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.planning.plan import Segment

TEMPLATE_LOG = "template"
"""The file among those of workers that a warm process writes its errors to."""
_LARGE = ("awkward", "hist", "uproot")
"""Packages that are imported when they are first used, and start no threads."""


class WarmProcesses:
    """One for each environment, since some of them count only as Python and its libraries begin."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], WarmProcess | None] = {}

    def of(self, what: Iterable[str], variables: Mapping[str, str], log: Path) -> WarmProcess | None:
        """The one that has imported this, with this environment; started when it is first asked for, and again when it
        was ended. None where no process can be forked here: then each is started in full."""
        what = tuple(what)
        key = (what, *sorted(variables.items()))
        if key not in self._known:
            self._known[key] = WarmProcess.start(what, variables, log) if can_fork() else None
        found = self._known[key]
        if found is not None and not found.is_usable:
            found.close()
            self._known[key] = WarmProcess.start(what, variables, log) if found.forks else None
        return self._known[key]

    @property
    def warming(self) -> list[socket.socket]:
        """Of those that are still importing: readable when there is news of them."""
        return [one.line for one in self._known.values() if one is not None and one.is_usable and not one.is_warm]

    def close(self) -> None:
        """End them, and what they forked."""
        for template in self._known.values():
            if template is not None:
                template.close()
        self._known.clear()


def words_to_import(module: str, segments: Iterable[Segment]) -> tuple[str, ...]:
    """What a worker with this module needs for these segments, and what of the large packages this process has needed
    so far. Code of users is not among it: it may start threads, and each worker imports it anew."""
    plugins = (f"{kind.value}:{name}" for kind, name in used_plugins(segments) if name in registry.built_in_names(kind))
    return (module, *sorted(plugins), *(name for name in _LARGE if name in sys.modules))


def runs_own_code(run_spec: RunSpec) -> bool:
    """Whether tasks run code that does not come with this package: of plugin files, or of installed plugins."""
    used = used_plugins(run_spec.segments)
    return bool(run_spec.plugins) or any(name not in registry.built_in_names(kind) for kind, name in used)


def used_plugins(segments: Iterable[Segment]) -> set[tuple[PluginKind, str]]:
    """Every plugin that runs on a worker."""
    found: set[tuple[PluginKind, str]] = set()
    for segment in segments:
        if segment.source is not None:
            found.add((PluginKind.SOURCE, segment.source.kind))
        found |= {(PluginKind.PRODUCT, kind) for kind in segment.products.values()}
        for step in segment.steps:
            found.add((PluginKind.OPERATION, step.op))
            found |= {(PluginKind.MODIFIER, modifier.name) for modifier in step.modifiers}
            found |= {(PluginKind.SINK, write.kind) for write in step.writes}
    return found
