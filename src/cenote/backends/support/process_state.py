"""Look whether a process of this machine is stopped, how much it has computed, and how long it waited for a core."""

from __future__ import annotations

from pathlib import Path

from cenote.values import dataclass

_WAITED = Path("/proc/thread-self/schedstat")
_STOPPED = ("T", "t")
"""What Linux calls a process that SIGSTOP or a debugger holds."""


@dataclass(frozen=True)
class VitalSigns:
    """Of a process, at one moment."""

    stopped: bool
    computed: int
    """Ticks of the clock that it has had a core; it works if there are more the next time."""


def vital_signs(process: int, *, named: str = "") -> VitalSigns | None:
    """None where there is no such process here, or its command line does not have this word: it is of another machine,
    or the system cannot say."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if named and named not in words:
        return None
    return VitalSigns(stopped=facts[0] in _STOPPED, computed=int(facts[11]) + int(facts[12]))


def seconds_without_core() -> float:
    """That this thread was ready to compute, and others had the cores; 0 where the system does not say."""
    try:
        return int(_WAITED.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
