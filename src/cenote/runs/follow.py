"""Read a run from its folder while it goes on, or long after, without disturbing it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from cenote import errors
from cenote.engine.messages import AnyEvent
from cenote.plan.probe_cache import ProbeHistory
from cenote.runs import journal
from cenote.runs.facts import RunFacts
from cenote.runs.folder import RunFolder, is_locked
from cenote.runs.read_summary import damaged
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
        self.view = RunView(_facts(self.folder))

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
                        raise damaged(self.folder, journal.NAME, problem) from None
        return self.view

    @property
    def driven(self) -> bool:
        """Whether a process is driving the run now; without one, a run that has no end was cut off."""
        return is_locked(self.folder.path)


def _facts(folder: RunFolder) -> RunFacts:
    try:
        facts = RunFacts.from_json(json.loads(folder.plan.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(folder, folder.plan.name, problem) from None
    return facts.with_probes(ProbeHistory())
