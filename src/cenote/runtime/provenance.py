"""Write down where results come from: inputs, software, options, the state of the repository."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cenote import __version__
from cenote.language.workflow import Workflow
from cenote.plan.plan import Plan
from cenote.shell import run_command

_SOFTWARE = ("awkward", "boost-histogram", "hist", "mplhep", "numpy", "pyarrow", "uproot")


def provenance(plan: Plan, *, command: Sequence[str] | None) -> dict[str, Any]:
    """Everything that somebody needs to repeat the run."""
    workflow = plan.workflow
    return {
        "cenote": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "software": {name: found for name in _SOFTWARE if (found := _version(name))},
        "command": list(command) if command else None,
        "workflow": _workflow(workflow),
        "plugins": [
            {"file": plugin.target, "sha256": _sha256(Path(plugin.target))}
            if plugin.target.endswith(".py")
            else {"module": plugin.target}
            for plugin in workflow.plugins
        ],
        "plan": plan.digest,
        "inputs": _inputs(plan),
        "git": _git_state(workflow.folder),
    }


def _workflow(workflow: Workflow) -> dict[str, Any]:
    if workflow.content is None:
        return {"file": str(workflow.file), "sha256": _sha256(workflow.file)}
    digest = hashlib.sha256(workflow.content).hexdigest()
    return {"file": str(workflow.file), "sha256": digest, "text": workflow.content.decode(errors="replace")}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _inputs(plan: Plan) -> list[dict[str, Any]]:
    """Each file with the stamp by which a change would be noticed (modification time and size, or its own id)."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for partition in plan.partitions:
        entry = files.setdefault(
            (partition.dataset, partition.url),
            {"dataset": partition.dataset, "file": partition.url, "stamp": partition.stamp, "events": 0},
        )
        entry["events"] += partition.events
    for entry in files.values():
        try:
            entry["size"] = os.stat(entry["file"]).st_size  # noqa: PTH116  # a path or a URL: pathlib would mangle it
        except OSError:
            entry["size"] = None
    return list(files.values())


def _git_state(folder: Path) -> dict[str, Any] | None:
    try:
        head = run_command(["git", "rev-parse", "HEAD"], seconds=5, folder=folder)
        if head.returncode != 0:
            return None
        status = run_command(["git", "status", "--porcelain", "--untracked-files=no"], seconds=5, folder=folder)
    except (OSError, TimeoutError):
        return None
    return {"commit": head.stdout.strip(), "changed": bool(status.stdout.strip())}
