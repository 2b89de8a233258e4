"""Remember what probes of pools found, in one small database that may vanish, and tell plans of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import msgspec

from cenote.common.cache_file import CacheFile, forget_the_oldest, rows_with_keys
from cenote.planning.fingerprint import digest_of
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan
from cenote.planning.probes.result import Probed

_TABLE = "create table if not exists probes (key text primary key, at real not null, probe blob not null)"
_FORMAT = 1
"""Part of the database's name: another layout starts a new file."""
_MOST_ROWS = 1000


def probe_key(plan: Plan, pool: PlacedPool) -> str:
    """Changes with anything that decides where a pool's workers start, and how."""
    execution = plan.workflow.execution
    how = [execution.config_of(pool.name), execution.environment_of(pool.name), asdict(pool.granted)]
    return digest_of([execution.backend, pool.strategy, *how])


class ProbeHistory:
    """The last probe by key. Every failure only means: not known."""

    def __init__(self, folder: Path | None = None) -> None:
        self._cache = CacheFile(f"probes-{_FORMAT}.sqlite", folder)

    def of(self, keys: Iterable[str]) -> dict[str, Probed]:
        """Key → its last probe."""
        wanted = sorted(set(keys))

        def look(database: sqlite3.Connection) -> dict[str, Probed]:
            rows = rows_with_keys(database, "select key, probe from probes", wanted)
            return {key: msgspec.json.decode(probe, type=Probed) for key, probe in rows}

        return (self._cache.read(look, unreadable=msgspec.MsgspecError) or {}) if wanted else {}

    def keep(self, probes: Mapping[str, Probed]) -> None:
        """Each takes the place of the one before it."""
        rows = [(key, probe.at, msgspec.json.encode(probe)) for key, probe in probes.items()]

        def change(database: sqlite3.Connection) -> None:
            database.execute(_TABLE)
            database.executemany("insert or replace into probes values (?, ?, ?)", rows)
            forget_the_oldest(database, "probes", keep=_MOST_ROWS)

        self._cache.write(change)


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


def _warning(pool: str, probe: Probed) -> str:
    when = datetime.fromtimestamp(probe.at).astimezone()
    found = "; ".join(f"{finding.question}: {finding.words}" for finding in probe.problems)
    return f"pool '{pool}' failed its probe on {when:%Y-%m-%d at %H:%M}: {found}"
