"""Declare the options that commands share: the workflow file, how to change it from outside, how it is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cenote.cli.completions import complete_plugin, complete_profile, complete_setting, complete_stage
from cenote.common.errors import BAD_YAML, USAGE, error
from cenote.common.values import dataclass
from cenote.language.plugins.kinds import PluginKind

if TYPE_CHECKING:
    from cenote.api import Analysis


LEASING = "service"
"""The strategy whose workers are leases."""
STDIN = Path("-")
"""The FILE that stands for standard input."""

ClickCommand = TypeVar("ClickCommand", bound=Callable[..., Any])

WANTS_JSON = "cenote.wants_json"
"""Where click keeps, for all that follows, that the answer must be JSON."""


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.meta[WANTS_JSON] = value
    return value


JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, callback=_note_json, help="Print one JSON object and nothing else."
)


SERVICE_OPTION = click.option(
    "--service",
    metavar="PLACE",
    help="Folder, socket or https:// address of the service; by default $CENOTE_SERVICE, or your own.",
)

LEASES_OPTION = click.option(
    "--service",
    is_flag=False,
    flag_value="",
    metavar="[PATH]",
    help="Lease workers from the long-lived pools of a service, instead of starting them: the one with this folder or "
    "socket, by default $CENOTE_SERVICE, or your own.",
)

OUTPUT_OPTION = click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of the terminal."
)


def deliver(text: str, output: Path | None) -> None:
    """Write an answer to the file that `--output` names, or print it."""
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def stages_option(name: str, meaning: str) -> Callable[[ClickCommand], ClickCommand]:
    """An option that names a stage, and may be given several times."""
    return click.option(name, multiple=True, metavar="STAGE", help=meaning, shell_complete=complete_stage)


def part_options(command: ClickCommand) -> ClickCommand:
    """The options that choose a part of the workflow."""
    until = stages_option("--until", "Stop after this stage: run it and what it needs.")
    only = stages_option("--only", "Keep only the results of this stage; what it needs runs but is not kept.")
    return until(only(command))


@dataclass(frozen=True)
class Choices:
    """A workflow file and what the command line says over it."""

    file: Path
    sets: tuple[str, ...]
    profiles: tuple[str, ...]
    backend: str | None
    strategy: str | None
    verbose: int = 0
    """How often `-v` was given."""

    @property
    def name(self) -> Path:
        """The file, or what stands for it where the workflow comes from standard input."""
        return Path("stdin") if self.file == STDIN else self.file

    def load(self) -> Analysis:
        """The analysis; what is wrong inside the file comes out of its methods."""
        from cenote.api import load

        text = standard_input() if self.file == STDIN else None
        analysis = load(
            self.name,
            text=text,
            profiles=self.profiles,
            sets=self.sets,
            backend=self.backend,
            strategy=self.strategy,
        )
        if self.verbose:
            from cenote.cli.views.verbose import layer_lines

            self.tell(layer_lines(analysis))
        return analysis

    def leasing(self, service: str | None) -> Choices:
        """The same with workers of a service, where one is named; an empty name is the user's own."""
        if service is None:
            return self
        if self.strategy not in (None, LEASING):
            raise error(USAGE, f"--service is the strategy '{LEASING}', and --strategy says '{self.strategy}'")
        place = service if "://" in service else str(Path(service).absolute())
        where = [f"execution.config.service={json.dumps(place)}"] if service else []
        return replace(self, strategy=LEASING, sets=(*self.sets, *where))

    def tell(self, lines: Iterable[str]) -> None:
        """Print what `-v` asks for, beside the answer."""
        from cenote.cli.console import messages, print_lines

        print_lines(messages(), lines)

    def as_arguments(self) -> list[str]:
        """The same choices as they would be typed, for hints that can be copied."""
        arguments = [str(self.file)]
        for option, values in (("--set", self.sets), ("--profile", self.profiles)):
            for value in values:
                arguments += [option, value]
        for option, name in (("--backend", self.backend), ("--strategy", self.strategy)):
            arguments += [option, name] if name else []
        return arguments


def standard_input() -> str:
    """A workflow that is sent to the command."""
    if sys.stdin is None:  # a process may be started without one
        raise error(
            USAGE, "FILE is `-`, and standard input is closed", hint="send the workflow: cenote … - < flow.yaml"
        )
    if sys.stdin.isatty():
        click.echo("reading a workflow from the terminal; end it with Ctrl-D on a line of its own", err=True)
    content = sys.stdin.buffer.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(BAD_YAML, "standard input is not UTF-8 text", hint="send it as UTF-8") from None


def workflow_choices(command: ClickCommand) -> Callable[..., Any]:
    """Give a command the FILE argument (`-`: standard input) and these options; it receives them as one `Choices`."""
    return _with_choices(command, required=True)


def optional_workflow_choices(command: ClickCommand) -> Callable[..., Any]:
    """The same for a command that may do without a workflow: it receives None where no FILE is given."""
    return _with_choices(command, required=False)


def _with_choices(command: ClickCommand, *, required: bool) -> Callable[..., Any]:
    @click.argument("file", type=click.Path(path_type=Path), required=required)
    @click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=complete_setting,
        help="Change a value, as execution.pools.gpu.workers=10.",
    )
    @click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="NAME|FILE",
        shell_complete=complete_profile,
        help="Merge a profile under the workflow.",
    )
    @click.option(
        "--backend",
        metavar="NAME",
        shell_complete=complete_plugin(PluginKind.BACKEND),
        help="How tasks are executed.",
    )
    @click.option(
        "--strategy",
        metavar="NAME",
        shell_complete=complete_plugin(PluginKind.STRATEGY),
        help="How workers are started.",
    )
    @click.option("-v", "--verbose", count=True, help="Log more to stderr: files read, events; -vv logs everything.")
    @wraps(command)
    def with_choices(**given: Any) -> Any:  # Any: the values of all options
        chosen = {field.name: given.pop(field.name) for field in fields(Choices)}
        if chosen["file"] is None:
            if any(value for name, value in chosen.items() if name != "verbose"):
                raise error(USAGE, "options that change a workflow need one: name its FILE")
            return command(None, **given)
        return command(Choices(**chosen), **given)

    return with_choices


# Declare the options that say how a workflow is run, for commands that run it here and leave it to a service.


def run_options(command: ClickCommand) -> ClickCommand:
    """The options, in the order in which help shows them."""
    options = (
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for all results of the run.  [default: out/<name of the file>]",
        ),
        part_options,
        stages_option("--force", "Rerun this stage and every stage that depends on it, changed or not."),
        click.option("--fresh", is_flag=True, help="Discard the run in that folder and start over."),
        click.option(
            "--resume", is_flag=True, help="Continue the run in that folder: the default unless --fresh is given."
        ),
        click.option("--replace", is_flag=True, help="The older name of --fresh."),
        click.option("--keep-going", is_flag=True, help="Process the remaining data when part of it fails."),
        click.option(
            "-j",
            "--cores",
            "--workers",
            "workers",
            type=click.IntRange(min=1),
            help="Total processes of the local backend, instead of one per core; with dask each pool has its own "
            "workers.",
        ),
        LEASES_OPTION,
        click.option("--no-report", is_flag=True, help="Write no report.html; `cenote report` makes one at any time."),
        click.option("--strict", is_flag=True, help="Treat missing hardware as an error instead of a warning."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def run_folder(choices: Choices, out: Path | None) -> Path:
    """Where the results go."""
    return out or Path("out") / choices.name.stem


def refuse_contradictions(*, fresh: bool, resume: bool, replace: bool, quiet: bool, verbose: int) -> None:
    """Options that exclude each other."""
    if resume and (fresh or replace):
        forgets = "--fresh" if fresh else "--replace"
        raise error(USAGE, f"--resume continues a run and {forgets} discards it: choose one")
    if quiet and verbose:
        raise error(USAGE, "--quiet and --verbose exclude each other: choose one")


def as_typed(context: click.Context, leaving_out: Collection[str]) -> Iterator[str]:
    """The words of this command once more, without some of its parameters: for another command that has the rest."""
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        if name in leaving_out or value in (None, False, ()):
            continue
        if isinstance(parameter, click.Argument):
            yield str(value)
        elif isinstance(parameter, click.Option):
            yield from _option(parameter, value)


def _option(option: click.Option, value: Any) -> Iterator[str]:  # Any: whatever the option holds
    word = max(option.opts, key=len)
    if option.count:
        yield from [word] * value
    elif option.is_flag:
        yield word
    else:
        for one in value if option.multiple else [value]:
            yield f"{word}={one}" if one != "" else word
