"""Read a run from its folder while it goes on, or long after, without disturbing it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cenote import errors
from cenote.engine.messages import AnyEvent
from cenote.plan.probe_cache import ProbeHistory, as_seen_by
from cenote.plan.probe_result import Probed
from cenote.plan.record import PlanRecord
from cenote.runs import journal
from cenote.runs.folder import RunFolder, is_locked
from cenote.runs.read_records import damaged, read_plan
from cenote.runs.view import RunView

_decoder = msgspec.json.Decoder(AnyEvent)


class FollowedRun:
    """A run in a folder; `catch_up` reads what was written since the last time, and only that."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self._journal = folder / journal.NAME
        if not self._journal.is_file():
            raise errors.error(
                errors.NO_RUN,
                f"{folder} holds no run: there is no {journal.NAME}",
                hint="name the folder that was given to `cenote run --out`",
            )
        self._begin()

    def _begin(self) -> None:
        self._read = 0
        plan = read_plan(self.folder)
        self.view = RunView(plan, _probes(plan))

    def catch_up(self) -> RunView:
        """The view after everything that stands in the journal by now."""
        if self._journal.stat().st_size < self._read:  # somebody replaced the run
            self._begin()
        with self._journal.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._read += len(line)
                try:
                    self.view.apply(_decoder.decode(line))
                except msgspec.DecodeError as problem:  # cut short by a crash
                    if self.view.run is None:
                        raise damaged(self._journal, problem) from None
        return self.view

    @property
    def driven(self) -> bool:
        """Whether a process is driving the run now; without one, a run that has no end was cut off."""
        return is_locked(self.folder.path)


def _probes(plan: PlanRecord) -> dict[str, Probed]:
    """Pool → its last probe, which may be younger than the run."""
    known = ProbeHistory().of(pool.probe.key for pool in plan.pools if pool.probe.key)
    return {
        pool.name: as_seen_by(known[pool.probe.key], plan.workflow) for pool in plan.pools if pool.probe.key in known
    }
