"""Ask backends and strategies what they are, so that their names decide nothing."""

from __future__ import annotations

from cenote.errors import CenoteError
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind


def runs_here(backend: str) -> bool:
    """Whether a backend runs all tasks on this machine, whatever the strategies of its pools."""
    return _is(PluginKind.BACKEND, backend, "runs_here")


def shares_process(backend: str) -> bool:
    """Whether the tasks that a worker of this backend runs at once share its process."""
    return _is(PluginKind.BACKEND, backend, "shares_process")


def starts_here(strategy: str) -> bool:
    """Whether a strategy starts workers as processes of this machine, instead of jobs of a batch system."""
    return _is(PluginKind.STRATEGY, strategy, "starts_here")


def _is(kind: PluginKind, name: str, capability: str) -> bool:
    """What the class says; no for one that cannot be loaded, which is refused where it is needed."""
    try:
        return bool(getattr(registry.load(kind, name), capability, False))
    except (CenoteError, ImportError):
        return False
