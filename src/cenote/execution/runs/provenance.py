"""Write down where results come from, and keep what the run before published to compare it with."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import UNSET, UnsetType

from cenote import __version__
from cenote.common import errors
from cenote.common.shell import run_command
from cenote.common.software import PACKAGES, installed_versions
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_if_whole
from cenote.execution.runs.summary import Summary
from cenote.language.workflow import Workflow
from cenote.planning.outputs.names import PRODUCTS
from cenote.planning.plan import Plan, SkippedFile

_SOFTWARE = sorted({*PACKAGES, "mplhep"} - {"cenote"})


class WorkflowRecord(msgspec.Struct, frozen=True):
    """The workflow as it was run."""

    file: str = ""
    sha256: str | None = None
    text: str | UnsetType = UNSET
    """Where it did not come from a file."""


class PluginRecord(msgspec.Struct, frozen=True):
    """Code of the user's own: a file, or a module."""

    file: str | UnsetType = UNSET
    sha256: str | UnsetType | None = UNSET
    module: str | UnsetType = UNSET


class InputRecord(msgspec.Struct, frozen=True):
    """An input file."""

    dataset: str = ""
    file: str = ""
    stamp: str = ""
    """Changes when the file does: modification time and size, or its own id."""
    events: int = 0
    size: int | None = None
    """Bytes; None where unknown."""


class GitRecord(msgspec.Struct, frozen=True):
    """The state of the repository."""

    commit: str
    changed: bool = False
    """Whether it has changes that are not committed."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that somebody needs to repeat the run: the content of `provenance.json`."""

    cenote: str = ""
    python: str = ""
    platform: str = ""
    software: dict[str, str] = {}
    command: tuple[str, ...] | None = None
    workflow: WorkflowRecord = WorkflowRecord()
    plugins: tuple[PluginRecord, ...] = ()
    plan: str = ""
    inputs: tuple[InputRecord, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    """Input files that were left out, because they cannot be read."""
    git: GitRecord | None = None
    environments: dict[str, dict[str, Any]] = {}
    """Pool → the environment of its workers: its type and settings, and what it says of itself."""
    results_of: tuple[str, ...] = ()
    """Whose results were used, besides one's own, as their keys are called here."""

    @classmethod
    def of(cls, plan: Plan, environments: dict[str, dict[str, Any]], *, command: Sequence[str] | None) -> Self:
        """Of a run of this plan with these environments of its pools, from here and now."""
        workflow = plan.workflow
        return cls(
            cenote=__version__,
            python=sys.version.split()[0],
            platform=platform.platform(),
            software={name: found for name, found in installed_versions(_SOFTWARE).items() if found},
            command=tuple(command) if command else None,
            workflow=_workflow(workflow),
            plugins=tuple(
                PluginRecord(plugin.target, _sha256(Path(plugin.target)))
                if plugin.target.endswith(".py")
                else PluginRecord(module=plugin.target)
                for plugin in workflow.plugins
            ),
            plan=plan.digest,
            inputs=tuple(_inputs(plan)),
            skipped=plan.skipped,
            git=_git_state(workflow.folder),
            environments=environments,
        )


def _workflow(workflow: Workflow) -> WorkflowRecord:
    if workflow.content is None:
        return WorkflowRecord(str(workflow.file), _sha256(workflow.file))
    digest = hashlib.sha256(workflow.content).hexdigest()
    return WorkflowRecord(str(workflow.file), digest, workflow.content.decode(errors="replace"))


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _inputs(plan: Plan) -> Iterator[InputRecord]:
    events = Counter[tuple[str, str, str]]()
    for partition in plan.partitions:
        events[partition.dataset, partition.url, partition.stamp] += partition.events
    for (dataset, file, stamp), count in events.items():
        try:
            size = os.stat(file).st_size  # noqa: PTH116  # a path or a URL: pathlib would mangle it
        except OSError:
            size = None
        yield InputRecord(dataset, file, stamp, count, size)


def _git_state(folder: Path) -> GitRecord | None:
    try:
        head = run_command(["git", "rev-parse", "HEAD"], seconds=5, folder=folder)
        if head.returncode != 0:
            return None
        status = run_command(["git", "status", "--porcelain", "--untracked-files=no"], seconds=5, folder=folder)
    except (OSError, TimeoutError):
        return None
    return GitRecord(head.stdout.strip(), bool(status.stdout.strip()))


# Keep what the run before published in a folder, so that the next run there can be compared with it.


MOST_FILES = 5000
"""With more, a run would notice: nothing is kept then."""


def keep_before(run: RunFolder) -> None:
    """Keep the records and products of the run that succeeded here last; its skims are not among them.

    Files are linked, which takes neither time nor space while they stay the same: whoever writes them anew puts
    another file in their place. What cannot be kept is no error.
    """
    summary = read_if_whole(run.summary, Summary)
    if summary is None or summary.status != "succeeded":
        return
    files = list(_published(run, summary))
    with suppress(OSError):
        if run.before.is_symlink():
            run.before.unlink()
        shutil.rmtree(run.before, ignore_errors=True)
        if len(files) <= MOST_FILES:
            for file in files:
                _link(file, run.before / file.relative_to(run.path))


def run_before(run: RunFolder) -> Path:
    """The folder with what is kept. Raises `no-run` where nothing is."""
    if not RunFolder(run.before).summary.is_file():
        raise errors.error(
            errors.NO_RUN,
            f"{run.path} holds nothing of a run before its last one: there is nothing to compare it with",
            hint="run again in this folder after a change, or name the folders of two runs",
        )
    return run.before


def _published(run: RunFolder, summary: Summary) -> Iterator[Path]:
    """Of what the summary names, files in the folder of products: others may have written it."""
    for product in summary.products:
        for file in map(Path, product.files):
            if file.parts[:1] == (PRODUCTS,) and ".." not in file.parts and (run.path / file).is_file():
                yield run.path / file
    # The summary comes last: where it is, everything is.
    yield from (file for file in (run.plan, run.provenance, run.ingredients, run.summary) if file.is_file())


def _link(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except FileNotFoundError:
        return  # somebody took it away
    except OSError:  # a disk without links
        shutil.copyfile(file, target)
