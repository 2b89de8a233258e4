"""Read HTCondor's analysis of a job that waits: which conditions no machine meets, and whether any can."""

from __future__ import annotations

import re

from cenote.language.execution import Amounts
from cenote.strategies.interface import JobId
from cenote.strategies.support.batch import NoAnswerError, ask, mebibytes
from cenote.values import dataclass

_SECONDS = 10.0
"""An analysis looks at every machine of the pool."""
_UNMET = re.compile(r"^\[\d+\]\s+0\s+(\S.*?)\s*$", re.MULTILINE)
_DEFINED = re.compile(r"^ {4}(\w+) = (\S.*?)\s*$", re.MULTILINE)
_SUMMARY = re.compile(r"Of (\d+) machines,\s+(\d+) are rejected by your job's requirements")


@dataclass(frozen=True)
class MatchAnalysis:
    """What HTCondor says about the machines that a job could go to."""

    unmet: tuple[str, ...] = ()
    """Conditions of the job that no slot meets now."""
    machines: int = 0
    rejected: int = 0
    """Machines that the job's own requirements rule out, however idle they were."""
    asked: tuple[tuple[str, str], ...] = ()
    """What the job asks for: (`RequestMemory`, `9000000 (mb)`)."""

    @property
    def hopeless(self) -> bool:
        """Whether there are machines and none of them could ever take the job, which has not begun on one.

        A job of ours that has begun is analysed as one that no machine may have: it must not begin once more.
        """
        return 0 < self.machines == self.rejected and dict(self.asked).get("NumJobStarts", "0") == "0"

    @property
    def about_amounts(self) -> bool:
        """Whether what is missing may only be taken by others at the moment."""
        return any("Request" in condition for condition in self.unmet)

    @property
    def in_words(self) -> str:
        """As HTCondor words it."""
        conditions = " and ".join(self.unmet)
        amounts = [f"{name} = {value}" for name, value in self.asked if re.search(rf"\b{name}\b", conditions)]
        of_which = f", with {', '.join(amounts)}" if amounts else ""
        lacks = f": no machine has {conditions}{of_which}" if conditions else ""
        return f"of {self.machines} machines, {self.rejected} are rejected by the job's requirements{lacks}"


def some_slot_holds(wanted: Amounts) -> bool:
    """Whether a slot, emptied, has such amounts; yes where nobody can tell.

    Versions differ in how they analyse a slot that is divided: as it is now, or as if nothing ran there.
    """
    amounts = {
        "Cpus": wanted.cpus,
        "Memory": wanted.memory and mebibytes(wanted.memory),
        "Disk": wanted.disk and -(-wanted.disk // 1024),
        "GPUs": wanted.gpus,
    }
    conditions = [f"TotalSlot{name} >= {amount}" for name, amount in amounts.items() if amount]
    try:
        found = ask(["condor_status", "-constraint", " && ".join(conditions) or "true", "-af", "Name"])
    except (NoAnswerError, TimeoutError):
        return True
    return bool(found.strip())


def analysis_of(job: JobId) -> MatchAnalysis:
    """Ask HTCondor; what it does not say in time is not known."""
    try:
        text = ask(["condor_q", "-better-analyze", job], seconds=_SECONDS)
    except (NoAnswerError, TimeoutError):
        return MatchAnalysis()
    summary = _SUMMARY.search(text)
    about_the_job = text.partition("defines the following attributes:")[2].partition("\nslot")[0]
    return MatchAnalysis(
        unmet=tuple(_UNMET.findall(text)),
        machines=int(summary[1]) if summary else 0,
        rejected=int(summary[2]) if summary else 0,
        asked=tuple(_DEFINED.findall(about_the_job)),
    )
