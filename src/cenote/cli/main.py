"""The command `cenote`: it finds the command asked for, runs it, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from cenote import __version__
from cenote.cli import streams
from cenote.cli.options import WANTS_JSON
from cenote.common import signals
from cenote.common.errors import CenoteError, Problem
from cenote.common.text import did_you_mean

# List the commands from their files, so that `cenote --help` need not import any of them.


FOLDER = Path(__file__).parent / "commands"
USUAL = (
    *("init", "check", "plan", "credentials", "probe", "simulate", "run", "submit", "status", "why", "cancel", "clean"),
    *("report", "diff", "ops", "env", "store", "site", "schema", "demo", "completion"),
)
"""In the order in which people meet them; any others follow by name."""


def _found() -> dict[str, str]:
    files = {path.stem: path for path in sorted(FOLDER.glob("[!_]*.py"))}
    names = dict.fromkeys((*(name for name in USUAL if name in files), *files))
    return {name: _first_line(files[name]) for name in names}


def _first_line(path: Path) -> str:
    """Of the docstring."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')


COMMANDS = _found()
"""Command → its line in the help, which is the first line of its file `commands/NAME.py`."""


# State what the exit codes mean; errors.py gives each kind of error its own.


DONE = 0
PARTIAL = 1
DIFFERS = 1
"""As of `diff`: what was compared is not the same."""
FAULT = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES: tuple[tuple[str, str], ...] = (
    (f"{DONE}", "done"),
    (
        f"{PARTIAL}",
        "partial: some data could not be processed (--keep-going), or a table not written; `cenote diff`: runs differ",
    ),
    ("2", "the command was not understood, or the output folder is taken"),
    ("10-19", "the file is wrong (10 YAML and keys, 11 plan, 12 plugins, 14 no pool can ever run a stage)"),
    ("20-29", "the run failed (20 a stage, 21 workers, 22 an input that changed)"),
    (
        "30-39",
        "the environment (30 software, 31 full disk, 32 no access, 33 broken storage, 34 bad path, 35 damaged run)",
    ),
    ("40-49", "the batch system, or a service, refused"),
    (f"{FAULT}", "an internal error of cenote"),
    ("129", "ended by SIGHUP: the terminal was closed"),
    (f"{INTERRUPTED}", "ended by Ctrl-C or `cenote cancel`"),
    ("143", "ended by SIGTERM"),
    (f"{PIPE_CLOSED}", "the reader of the output closed the pipe"),
)


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"cenote.cli.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS)
            known = f"commands: {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command '{args[0]}'\n  {known}" + (f"\n  hint: {hint}" if hint else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # Any: what a command returns
        """Run the command; with `--json`, what is wrong goes to stdout as JSON too."""
        try:
            return super().invoke(ctx)
        except CenoteError as error:
            if ctx.meta.get(WANTS_JSON):
                from cenote.cli.views.problems import problems_as_json

                click.echo(problems_as_json(error.problems))
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Exit codes"):
            formatter.write_dl(list(EXIT_CODES))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="cenote")
def cli() -> None:
    """Run one scientific workflow over several pools of workers: same file, same numbers, anywhere.

    Try `cenote demo`, or start your own analysis with `cenote init`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """What the program does, once it hears signals."""
    signals.take_over()
    streams.make_ready()
    code = exit_code_of(arguments) or _exit_code_of_flushing()
    streams.give_back()
    signals.leave(code)
    sys.exit(code)


def exit_code_of(arguments: Sequence[str] | None = None) -> int:
    """Run a command; whatever happens ends in an exit code, and user mistakes never in a traceback."""
    try:
        with signals.raised():
            code: Any = cli.main(arguments, prog_name="cenote", standalone_mode=False)  # Any: what a command returns
    except CenoteError as error:
        return _exit_code_of_problems(error.problems)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("cenote: interrupted", err=True)
        return signals.exit_code()
    except streams.ReaderGoneError:
        return PIPE_CLOSED
    except OSError as problem:
        return _exit_code_of_refusal(problem)
    except Exception as fault:
        return _exit_code_of_fault(fault)
    if code == INTERRUPTED:
        return signals.exit_code()
    return code if isinstance(code, int) else 0


def _exit_code_of_flushing() -> int:
    try:
        sys.stdout.flush()
    except streams.ReaderGoneError:
        return PIPE_CLOSED
    except OSError as problem:
        return _exit_code_of_refusal(problem)
    return 0


def _exit_code_of_problems(problems: Sequence[Problem]) -> int:
    from cenote.cli.views.problems import show_problems

    show_problems(problems)
    return CenoteError(problems).exit_code


def _exit_code_of_refusal(problem: OSError) -> int:
    """A file system refuses something, or stdout does; every other error of the system is a fault of ours."""
    from cenote.common.storage import problem_of

    found = problem_of(problem)
    return _exit_code_of_fault(problem) if found is None else _exit_code_of_problems([found])


def _exit_code_of_fault(fault: Exception) -> int:
    from cenote.cli.faults import show_fault

    show_fault(fault)
    return FAULT
