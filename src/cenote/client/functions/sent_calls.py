"""Follow the calls of one task: read what its instances returned, and say what has to be made again."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cenote import errors
from cenote.client.access_records import Done
from cenote.client.definitions import InstanceState
from cenote.client.functions.call_files import CallOutcome, read_outcomes
from cenote.client.functions.calls import CallTerms, PoolCall
from cenote.client.functions.pickling import value_of
from cenote.client.functions.problems import ProcessEndedError
from cenote.client.line import Line
from cenote.client.python_call import RETURNED
from cenote.client.records import EndedInstance
from cenote.client.shown_output import ShownOutput

_TIMED_OUT = "ended by SIGALRM"


@dataclass(eq=False)
class SentCalls:
    """A task whose instances make calls."""

    task: str
    terms: CallTerms
    chunks: dict[int, list[PoolCall]]
    """Calls by the instance that makes them, as long as they did not come back."""
    file: Path
    """In which the calls travel."""
    shown: dict[str, ShownOutput] = field(default_factory=lambda: defaultdict(ShownOutput))

    def take(self, line: Line, ended: EndedInstance) -> list[PoolCall]:
        """An instance is over: futures get their values; returns the calls that have to be made again."""
        outcomes = self._outcomes(line, ended)
        return self._settle(self.chunks.pop(ended.instance.number), ended, outcomes)

    def fail(self, problem: Exception) -> None:
        """Nothing more comes back."""
        for call in (call for chunk in self.chunks.values() for call in chunk):
            call.future.set_exception(problem)
        self.chunks.clear()

    def forget(self, line: Line) -> None:
        """All came back: what carried them is not needed any more."""
        self.file.unlink(missing_ok=True)
        with suppress(errors.CenoteError):  # they are only in the way
            line.delete(f"/tasks/{self.task}/results", Done)

    def _outcomes(self, line: Line, ended: EndedInstance) -> list[CallOutcome] | None:
        """None where its process made no call."""
        if ended.size is None:
            return None
        whole = len(ended.returned) == ended.size
        name = f"/tasks/{self.task}/results/{ended.instance.number}/{RETURNED}"
        return list(read_outcomes(ended.returned if whole else line.read(name)))

    def _settle(
        self, calls: list[PoolCall], ended: EndedInstance, outcomes: list[CallOutcome] | None
    ) -> list[PoolCall]:
        how = ended.why if ended.instance.state is InstanceState.CANCELLED else ended.instance.message
        if outcomes is None:
            why = how or "its process left nothing"
            return [call for call in calls if call.fail(ProcessEndedError(f"{call.label} was not made: {why}"))]
        if outcomes:
            size, seconds = sum(len(each.content) for each in outcomes), sum(each.seconds for each in outcomes)
            self.terms.pace.note(len(outcomes), seconds, size)
        again = [call for call, outcome in zip(calls, outcomes, strict=False) if _must_be_repeated(call, outcome)]
        last, never_begun = calls[len(outcomes) : len(outcomes) + 1], calls[len(outcomes) + 1 :]
        return [*again, *(call for call in last if call.fail(self._end_of(call, how))), *never_begun]

    def _end_of(self, call: PoolCall, how: str) -> Exception:
        if self.terms.limit is not None and how.startswith(_TIMED_OUT):
            return TimeoutError(f"{call.label} took longer than {self.terms.limit:g} s")
        return ProcessEndedError(f"{call.label} ended its process: {how or 'exit code 0, before it returned anything'}")

    def show(self, line: Line) -> None:
        """What its instances printed since it was last shown."""
        for stream, target in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            text = line.read(f"/tasks/{self.task}/{stream}", since=self.shown[stream].size)
            target.write(self.shown[stream].text_of(text))
            target.flush()


def _must_be_repeated(call: PoolCall, outcome: CallOutcome) -> bool:
    """Whether the call has to be made again; else its future has what it returned or raised."""
    try:
        value = value_of(outcome, call.label)
    except BaseException as problem:
        return call.fail(problem)
    call.future.set_result(value)
    return False
