"""Put what modifiers leave into the run's folder, and let them make one file of it when the run is over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path

import msgspec

from cenote.analysis.modifiers.interface import FinishedRun, Modifier, RanTask, leads_out
from cenote.common import storage
from cenote.common.errors import CenoteError, words_of
from cenote.common.signals import Interrupted
from cenote.common.values import dataclass
from cenote.engine.messages import StageStats, TaskDone
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import CompiledRecord, StageRecord
from cenote.execution.runs.view.task_names import TaskNames
from cenote.execution.runs.view.timeline import read_timeline
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.planning.fingerprint import digest_of
from cenote.planning.plan import PlannedModifier
from cenote.planning.record import PlanRecord


@dataclass(frozen=True)
class ModifierFiles:
    """The files of a run's modifiers. Those that an earlier run left of a stage stay until this run has some of it."""

    folder: RunFolder
    _renewed: set[Path] = field(default_factory=set)
    """Folders that hold files of this run only."""

    def put_away(self, event: TaskDone) -> TaskDone:
        """Write the files that came with a task; the event goes on without them, and tells which could not be."""
        if not event.files:
            return event
        refused = []
        for name, content in event.files.items():
            self._renew(Path(name))
            try:
                self._write(Path(name), content)
            except CenoteError as problem:  # the results are there all the same
                modifier = Path(name).parts[0]
                refused.append(f"modifier '{modifier}': a file is missing: {problem.problems[0].message}")
        return msgspec.structs.replace(event, files={}, warnings=(*event.warnings, *refused))

    def _renew(self, name: Path) -> None:
        """Remove what an earlier run left in the folder of a stage: `profile/Slow` of `profile/Slow/node-7.folded`."""
        folder = Path(*name.parts[:2])
        if len(name.parts) > len(folder.parts) and folder not in self._renewed and not leads_out(name):
            self._renewed.add(folder)
            shutil.rmtree(self.folder.modifiers / folder, ignore_errors=True)

    def _write(self, name: Path, content: bytes) -> None:
        if leads_out(name):
            return  # the worker has refused it, if it is one of ours
        with storage.appearing(self.folder.modifiers / name) as unfinished:
            unfinished.write_bytes(content)

    def _write_text(self, modifier: str, name: str, text: str) -> None:
        self._write(Path(modifier, name), text.encode())

    def conclude(
        self, plan: PlanRecord, stages: Mapping[str, StageRecord], compiled: Sequence[CompiledRecord]
    ) -> Iterator[str]:
        """Let every modifier of the run make its files; yields what the user should know."""
        for modifier, of_stages in _uses(plan).values():
            measured = {
                stage: found
                for stage in of_stages
                for found in stages[stage].modifiers
                if found.name == modifier.name and found.calls
            }
            together = {
                group.stages: found
                for group in compiled
                for found in group.modifiers
                if group.stages[0] in of_stages and found.name == modifier.name
            }
            if not measured and not together and not any(stages[stage].failed for stage in of_stages):
                continue  # nothing ran: what an earlier run left stays
            finished = FinishedRun(
                name=plan.workflow,
                stages=measured,
                folder=self.folder.modifiers / modifier.name,
                tasks=partial(_ran_tasks, self.folder, plan, modifier.name),
                write=partial(self._write_text, modifier.name),
                groups=together,
            )
            try:
                made: Modifier = registry.make(PluginKind.MODIFIER, modifier.name, modifier.params)
                made.conclude(finished)
            except Interrupted:
                raise
            except BaseException as problem:  # somebody's code may raise anything; the results are there all the same
                words = problem.problems[0].message if isinstance(problem, CenoteError) else words_of(problem)
                yield f"modifier '{modifier.name}' could not write its files: {words}"


def _uses(plan: PlanRecord) -> dict[str, tuple[PlannedModifier, list[str]]]:
    """Every modifier with the same settings, and its stages."""
    found: dict[str, tuple[PlannedModifier, list[str]]] = {}
    for stage in plan.stages:
        for modifier in stage.modifiers:
            key = f"{modifier.name} {digest_of(modifier.params)}"
            found.setdefault(key, (modifier, []))[1].append(stage.id)
    return found


def _ran_tasks(folder: RunFolder, plan: PlanRecord, modifier: str) -> Iterator[RanTask]:
    names = TaskNames(plan)
    for slot in read_timeline(folder).slots:
        for span in slot.spans:
            yield RanTask(
                name=names.stages(names.segment(span.task)),
                partition=names.partition(span.task),
                pool=slot.pool,
                worker=slot.worker,
                slot=slot.slot,
                start=span.start,
                end=span.end,
                events=span.events,
                bytes_read=span.bytes_read,
                failure=span.failure,
                stages=_noted(span.stages, modifier),
                groups={one.stages: one.modifiers[modifier].values for one in span.groups if modifier in one.modifiers},
            )


def _noted(stages: Mapping[str, StageStats], modifier: str) -> dict[str, Mapping[str, int | float | str]]:
    return {stage: stats.modifiers[modifier].values for stage, stats in stages.items() if modifier in stats.modifiers}
