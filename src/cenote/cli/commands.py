"""This file lists the commands, so that `cenote --help` need not import any of them."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command lives (a module with an attribute `command`) and its line in the help."""

    module: str
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry("cenote.cli.init", "Start a new analysis that runs at once."),
    "check": CommandEntry("cenote.cli.check", "Say everything that is wrong with a workflow."),
    "plan": CommandEntry("cenote.cli.plan", "Show what would run, where, and why there."),
    "probe": CommandEntry("cenote.cli.probe", "Try each pool, and tell what a worker would find on its node."),
    "simulate": CommandEntry("cenote.cli.simulate", "Predict how long a workflow takes, and what it waits for."),
    "run": CommandEntry("cenote.cli.run", "Run a workflow."),
    "status": CommandEntry("cenote.cli.status", "Show how far a run is, or how it ended."),
    "why": CommandEntry("cenote.cli.why", "Say why a run, or a stage of it, is where it is."),
    "cancel": CommandEntry("cenote.cli.cancel", "End a run that goes on; what is finished stays."),
    "clean": CommandEntry("cenote.cli.clean", "Remove jobs that runs left behind whose driver was killed."),
    "report": CommandEntry("cenote.cli.report", "Write the report page of a run again."),
    "ops": CommandEntry("cenote.cli.ops", "List operations and other plugins, or the settings of one."),
    "site": CommandEntry("cenote.cli.site", "Show what your site provides, or check the file of a site."),
    "schema": CommandEntry("cenote.cli.schema", "Print the JSON Schema of workflow files, for editors."),
    "demo": CommandEntry("cenote.cli.demo", "Run a small workflow over three pools, from data to pictures."),
    "completion": CommandEntry("cenote.cli.completion", "Print the completion script for a shell."),
}
