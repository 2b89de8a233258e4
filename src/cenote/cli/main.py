"""This file is the command `cenote`: it finds the command asked for, runs it, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from cenote import __version__
from cenote.cli.commands import COMMANDS
from cenote.cli.exit_codes import EXIT_CODES, FAULT, INTERRUPTED, PIPE_CLOSED
from cenote.errors import CenoteError
from cenote.names import did_you_mean


class ReaderGoneError(Exception):
    """Whatever read our output went away. Under its own name click would catch it and exit with 1, our "partial"."""


@contextmanager
def _naming_broken_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used, and not before."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _naming_broken_pipes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _naming_broken_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS)
            known = f"commands: {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command '{args[0]}'\n  {known}" + (f"\n  hint: {hint}" if hint else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Exit codes"):
            formatter.write_dl(list(EXIT_CODES))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="cenote")
def cli() -> None:
    """Run one scientific workflow over several pools of workers: same file, same numbers, anywhere.

    Try `cenote demo`, or start your own analysis with `cenote init`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    code = exit_code_of(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_went_away()
    sys.exit(code)


def exit_code_of(arguments: Sequence[str] | None = None) -> int:
    """Run a command; whatever happens ends in an exit code, and user mistakes never in a traceback."""
    try:
        code: Any = cli.main(arguments, prog_name="cenote", standalone_mode=False)  # Any: what the command returned
    except CenoteError as error:
        from cenote.cli.problems import show_problems

        show_problems(error.problems)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("cenote: interrupted", err=True)
        return INTERRUPTED
    except ReaderGoneError:
        return _reader_went_away()
    except Exception as fault:
        from cenote.cli.faults import show_fault

        show_fault(fault)
        return FAULT
    return code if isinstance(code, int) else 0


def _reader_went_away() -> int:
    """`cenote ops | head`: end as quietly as other tools, and keep Python from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
