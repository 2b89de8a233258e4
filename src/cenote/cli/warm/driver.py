"""What drivers of most runs use, for the warm process of a service that they are forked from."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from cenote.execution.backends.dask import worker
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind, look_again
from cenote.language.read import read_workflow

_MODULES = (
    "cenote.api",
    "cenote.execution.backends.dask.session",
    "cenote.cli.commands.run",
    "cenote.cli.warm.lent",
    "cenote.cli.streams",
    "cenote.cli.views.progress.live",
    "cenote.analysis.operations.support.custom",
    "cenote.planning.picture.draw",
    "cenote.report.page",
    "cenote.execution.runtime.worker_jobs",
    "cenote.service.strategies.service",
    "cenote.execution.worker.process.user_output",
    "cryptography.hazmat.backends.openssl",  # as certificates are made
    "encodings.utf_8_sig",  # as workflows are read
    "tornado.platform.asyncio",
)
_BY_ITSELF = (PluginKind.ENVIRONMENT, PluginKind.CREDENTIAL, PluginKind.BACKEND, PluginKind.STRATEGY)
"""Kinds whose plugins are imported by the runs that use them: most runs use one, which is among the modules."""
_REHEARSED = b"""
version: "1.0"
data:
  datasets: [{name: a, files: "*.root", eventtype: mc}]
analysis:
  stages:
    - id: Fill
      op: hep.hist
      params: {axes: [{name: x, type: regular, source: x, bins: {nbins: 1, low: 0, high: 1}}]}
      render: {op: hep.render.hist1d, out: x}
    - id: Select
      op: hep.selection.cutflow
      params: {selection: {All: [{label: a, expr: "x > 1"}]}}
execution:
  strategy: service
  pools: {default: {workers: 1}}
"""
"""A workflow with a bit of everything: what checks each part of it is made when that is first met."""


def warm_up() -> None:
    """Import it all, and read a workflow once."""
    for module in _MODULES:
        import_module(module)
    for kind in PluginKind:
        for name in registry.built_in_names(kind) if kind not in _BY_ITSELF else ():
            registry.load(kind, name).warm_up()
    read_workflow(Path("rehearsal.yaml"), content=_REHEARSED)
    worker.warm_up()
    look_again()  # each driver has folders of its own to import from
