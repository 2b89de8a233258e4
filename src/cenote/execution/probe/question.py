"""Decide what probes are asked: which packages, plugins and files a workflow needs on its workers."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cenote.analysis.sources.support.files import XROOTD_SCHEMES
from cenote.common.software import PACKAGES
from cenote.execution.probe.report import CredentialAsked, FileAsked, Question, as_word
from cenote.execution.runs.configured import backend_of
from cenote.execution.runs.credentials import NamedCredential
from cenote.execution.worker.process.credentials import FILE
from cenote.language.plugins import own_files
from cenote.language.plugins.shipped import own_path
from cenote.planning.plan import Plan, SourceStep

_REMOTE = tuple(f"{scheme}://" for scheme in XROOTD_SCHEMES)
_XROOTD = ("fsspec-xrootd", "xrootd")
_MOST_FILES = 8
"""Files that are tried, one of each dataset."""
_LONGEST_WORD = 100_000
"""Linux takes no word of a command beyond 128 KiB."""


def question_for_all(plan: Plan, out: Path, *, token: str) -> Question:
    """What every pool is asked; its name, and where the driver and its scratch space are, comes later."""
    files = own_files.sources_of(plugin.target for plugin in plan.workflow.plugins)
    needed = [
        *PACKAGES,
        *backend_of(plan).packages,
        *(_XROOTD if any(one.url.startswith(_REMOTE) for one in plan.partitions) else ()),
        *imported_packages(one.source for one in files if not one.binary),
    ]
    question = Question(
        pool="",
        token=token,
        packages=tuple(dict.fromkeys(needed)),
        plugins=tuple((plugin.target, plugin.kind, plugin.name) for plugin in plan.workflow.plugins),
        sources=tuple(files),
        path=own_path(),
        files=tuple(_files(plan))[:_MOST_FILES],
        folder=str(out.absolute()),
    )
    return question if len(as_word(question)) < _LONGEST_WORD else replace(question, plugins=(), sources=())


def credentials_asked(credentials: Iterable[NamedCredential]) -> tuple[CredentialAsked, ...]:
    """Those that are files, by the variable that leads to each."""
    found = []
    for one in credentials:
        leading = [name for name, value in one.credential.variables().items() if value == FILE]
        if leading and (facts := one.facts()) is not None:
            found.append(CredentialAsked(one.type, leading[0], facts.ends))
    return tuple(found)


def imported_packages(sources: Iterable[bytes]) -> Iterator[str]:
    """What is installed here and imported at the top of these files, in a `try` or not."""
    modules = dict.fromkeys(module for source in sources for module in _modules(ast.parse(source).body))
    owners = importlib.metadata.packages_distributions() if modules else {}
    for module in modules:
        yield from owners.get(module, ())[:1]


def _modules(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """The first parts of the names that are imported, without those of the standard library."""
    for statement in statements:
        if isinstance(statement, ast.Try):
            yield from _modules(statement.body)
        names = [one.name for one in statement.names] if isinstance(statement, ast.Import) else []
        if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            names = [statement.module]
        yield from (top for name in names if (top := name.partition(".")[0]) not in sys.stdlib_module_names)


def _files(plan: Plan) -> Iterator[FileAsked]:
    """The first file of each dataset, as the tasks read it."""
    sources = {segment.source.id: segment.source for segment in plan.segments if segment.source is not None}
    seen: set[tuple[str, str]] = set()
    for partition in plan.partitions:
        source = sources.get(partition.source)
        if source is not None and (partition.dataset, partition.source) not in seen:
            seen.add((partition.dataset, partition.source))
            column = _column(source, partition.dataset)
            url = partition.url if "://" in partition.url else str(Path(partition.url).absolute())
            yield FileAsked(partition.dataset, url, source.kind, source.settings, column)


def _column(source: SourceStep, dataset: str) -> str | None:
    name = next(iter(source.columns.get(dataset, ())), None)
    return None if name is None else source.renames.get(name, name)
