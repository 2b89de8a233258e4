"""Cenote runs one scientific workflow over several pools of workers."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes longer to import than everything else until signals are heard

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "CenoteError",
    "Events",
    "OnnxModel",
    "PoolExecutor",
    "Run",
    "__version__",
    "cancel",
    "connect",
    "connect_async",
    "kernel",
    "load",
    "modifier",
    "open_run",
    "operation",
    "resource",
    "show_progress",
]

if TYPE_CHECKING:  # what a type checker sees; at run time names are imported when first used, so that starting is quick
    from typing import Any

    from cenote.analysis.modifiers.support.custom import modifier
    from cenote.analysis.operations.support.custom import operation
    from cenote.analysis.operations.support.events import Events
    from cenote.analysis.operations.support.kernels import kernel
    from cenote.analysis.operations.support.models.onnx_model import OnnxModel
    from cenote.api import Analysis, cancel, load, open_run
    from cenote.cli.views.progress.live import show_progress
    from cenote.common.errors import CenoteError
    from cenote.language.plugins.resources import resource
    from cenote.report.run import Run
    from cenote.service.client.async_connection import connect_async
    from cenote.service.client.connection import connect
    from cenote.service.client.functions.executor import PoolExecutor

_HOMES = {
    "Analysis": "cenote.api",
    "Run": "cenote.report.run",
    "cancel": "cenote.api",
    "connect": "cenote.service.client.connection",
    "PoolExecutor": "cenote.service.client.functions.executor",
    "connect_async": "cenote.service.client.async_connection",
    "load": "cenote.api",
    "open_run": "cenote.api",
    "CenoteError": "cenote.common.errors",
    "Events": "cenote.analysis.operations.support.events",
    "OnnxModel": "cenote.analysis.operations.support.models.onnx_model",
    "kernel": "cenote.analysis.operations.support.kernels",
    "modifier": "cenote.analysis.modifiers.support.custom",
    "operation": "cenote.analysis.operations.support.custom",
    "resource": "cenote.language.plugins.resources",
    "show_progress": "cenote.cli.views.progress.live",
}


def __dir__() -> list[str]:
    """What is for users: modules that were imported on the way are not."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cenote' has no attribute {name!r}")
