"""This file remembers what probes of pools found, in one small database that may vanish, and tells plans of it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cenote.placement.pools import PlacedPool
from cenote.plan.fingerprint import digest_of
from cenote.plan.metadata_cache import cache_folder
from cenote.plan.plan import Plan
from cenote.plan.probe_result import Finding, Probed

_LOG = logging.getLogger(__name__)

_TABLE = "create table if not exists probes (key text primary key, at real not null, probe blob not null)"
_FORMAT = 1
"""Part of the database's name: another layout starts a new file."""
_MOST_ROWS = 1000
_PATIENCE = 2.0
"""Seconds to wait for another process that writes."""


def probe_key(plan: Plan, pool: PlacedPool) -> str:
    """Changes with anything that decides where a pool's workers start, and how."""
    execution = plan.workflow.execution
    own = next((one.config for one in execution.pools if one.name == pool.name), {})
    config = {**execution.config, **own}
    return digest_of([execution.backend, pool.strategy, config, asdict(pool.granted)])


class ProbeHistory:
    """The last probe by key. Every failure only means: not known."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = (folder or cache_folder()) / f"probes-{_FORMAT}.sqlite"

    def of(self, keys: Iterable[str]) -> dict[str, Probed]:
        """Key → its last probe."""
        wanted = sorted(set(keys))
        if not wanted or not self._file.exists():
            return {}
        try:
            with closing(self._connected()) as database:
                question = f"select key, probe from probes where key in ({','.join('?' * len(wanted))})"
                rows = database.execute(question, wanted).fetchall()
                return {key: msgspec.json.decode(probe, type=Probed) for key, probe in rows}
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as problem:
            self._discard(problem)
            return {}

    def keep(self, probes: Mapping[str, Probed]) -> None:
        """Each takes the place of the one before it."""
        rows = [(key, probe.at, msgspec.json.encode(probe)) for key, probe in probes.items()]
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as database, database:
                database.execute(_TABLE)
                database.executemany("insert or replace into probes values (?, ?, ?)", rows)
                database.execute(
                    "delete from probes where key in (select key from probes order by at desc limit -1 offset ?)",
                    (_MOST_ROWS,),
                )
        except (sqlite3.Error, OSError) as problem:
            self._discard(problem)

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=_PATIENCE)

    def _discard(self, problem: Exception) -> None:
        """A broken database is removed, so that the next probe has a good one; a locked or read-only one is left."""
        _LOG.debug("no history of probes: %s", problem)
        if isinstance(problem, sqlite3.DatabaseError) and not isinstance(problem, sqlite3.OperationalError):
            with suppress(OSError):
                self._file.unlink()


def with_probes(plan: Plan, history: ProbeHistory) -> Plan:
    """The same plan, with the last probe of each pool, and a warning where that pool could not work."""
    keys = {pool.name: probe_key(plan, pool) for pool in plan.placement.pools}
    known = history.of(keys.values())
    workflow = str(plan.workflow.file.absolute())
    found = {name: as_seen_by(known[key], workflow) for name, key in keys.items() if key in known}
    warnings = [_warning(name, probe) for name, probe in found.items() if probe.problems]
    return replace(plan, probes=found, warnings=tuple(dict.fromkeys([*plan.warnings, *warnings])))


def as_seen_by(probe: Probed, workflow: str) -> Probed:
    """Without what it says of the files and plugins of another workflow; a name without a folder may be in any."""
    if workflow in (probe.workflow, Path(probe.workflow).name):
        return probe
    return replace(probe, findings=tuple(one for one in probe.findings if not one.of_workflow))


def finding_as_json(finding: Finding) -> dict[str, Any]:  # Any: whatever `json.dumps` takes
    """For other programs."""
    said = {"question": finding.question, "verdict": finding.verdict, "words": finding.words}
    return {**said, "hint": finding.hint, "lines": list(finding.lines)}


def probe_as_json(key: str, probe: Probed | None) -> dict[str, Any]:  # Any: whatever `json.dumps` takes
    """What a plan says of the last probe of a pool: nulls where there was none."""
    if probe is None:
        return {"key": key, "at": None, "verdict": None, "host": None, "findings": []}
    return {
        "key": key,
        "at": datetime.fromtimestamp(probe.at, UTC).isoformat(timespec="seconds"),
        "verdict": probe.verdict,
        "host": probe.host or None,
        "findings": [finding_as_json(finding) for finding in probe.troubles],
    }


def _warning(pool: str, probe: Probed) -> str:
    when = datetime.fromtimestamp(probe.at).astimezone()
    found = "; ".join(f"{finding.question}: {finding.words}" for finding in probe.problems)
    return f"pool '{pool}' could not work when it was probed on {when:%Y-%m-%d at %H:%M}: {found}"
