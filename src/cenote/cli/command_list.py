"""List the commands, so that `cenote --help` need not import any of them."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command lives (a module with an attribute `command`) and its line in the help."""

    module: str
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry("cenote.cli.commands.init", "Start a new analysis that runs at once."),
    "check": CommandEntry("cenote.cli.commands.check", "Check a workflow and list every problem."),
    "plan": CommandEntry("cenote.cli.commands.plan", "Show what would run, where, and why."),
    "probe": CommandEntry("cenote.cli.commands.probe", "Test each pool and report what a worker finds on its node."),
    "simulate": CommandEntry("cenote.cli.commands.simulate", "Predict how long a workflow takes and where it waits."),
    "run": CommandEntry("cenote.cli.commands.run", "Run a workflow."),
    "status": CommandEntry("cenote.cli.commands.status", "Show the progress of a run, or how it ended."),
    "why": CommandEntry("cenote.cli.commands.why", "Explain what a run or a stage is waiting for."),
    "cancel": CommandEntry("cenote.cli.commands.cancel", "Cancel a running run; finished results are kept."),
    "clean": CommandEntry("cenote.cli.commands.clean", "Remove jobs left behind by runs whose driver was killed."),
    "report": CommandEntry("cenote.cli.commands.report", "Write the report page of a run again."),
    "ops": CommandEntry("cenote.cli.commands.ops", "List operations and other plugins, or the settings of one."),
    "site": CommandEntry(
        "cenote.cli.commands.site", "Show what your site provides, or check a site configuration file."
    ),
    "schema": CommandEntry("cenote.cli.commands.schema", "Print the JSON Schema of workflow files, for editors."),
    "demo": CommandEntry("cenote.cli.commands.demo", "Run a small workflow over three pools, from data to pictures."),
    "completion": CommandEntry("cenote.cli.commands.completion", "Print the completion script for a shell."),
}
