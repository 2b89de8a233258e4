"""This file declares what `check`, `plan` and `run` share: the workflow file and how to change it from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # importing the API costs what `cenote run --help` must not pay
    from cenote.api import Analysis

Command = TypeVar("Command", bound=Callable[..., Any])

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def part_options(command: Command) -> Command:
    """The options that choose a part of the workflow."""
    until = click.option(
        "--until", multiple=True, metavar="STAGE", help="End with this stage: only what it needs and itself."
    )
    only = click.option(
        "--only", multiple=True, metavar="STAGE", help="Only the results of this stage: what it needs is not kept."
    )
    return until(only(command))


@dataclass(frozen=True)
class Choices:
    """A workflow file and what the command line says over it."""

    file: Path
    sets: tuple[str, ...]
    profiles: tuple[str, ...]
    backend: str | None
    strategy: str | None

    def load(self) -> Analysis:
        """The analysis; what is wrong inside the file comes out of its methods."""
        from cenote.api import load

        return load(self.file, profiles=self.profiles, sets=self.sets, backend=self.backend, strategy=self.strategy)

    def as_arguments(self) -> list[str]:
        """The same choices as they would be typed, for hints that can be copied."""
        arguments = [str(self.file)]
        for option, values in (("--set", self.sets), ("--profile", self.profiles)):
            for value in values:
                arguments += [option, value]
        for option, name in (("--backend", self.backend), ("--strategy", self.strategy)):
            arguments += [option, name] if name else []
        return arguments


def workflow_choices(command: Command) -> Callable[..., Any]:
    """Give a command the FILE argument and the options above; it receives them as one `Choices`."""

    @click.argument("file", type=click.Path(path_type=Path))
    @click.option(
        "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a value, as execution.pools.gpu.workers=10."
    )
    @click.option(
        "--profile", "profiles", multiple=True, metavar="NAME|FILE", help="Merge a profile under the workflow."
    )
    @click.option("--backend", metavar="NAME", help="How tasks are executed.")
    @click.option("--strategy", metavar="NAME", help="How workers come to exist.")
    @wraps(command)
    def with_choices(
        *,
        file: Path,
        sets: tuple[str, ...],
        profiles: tuple[str, ...],
        backend: str | None,
        strategy: str | None,
        **others: Any,
    ) -> Any:
        return command(Choices(file, sets, profiles, backend, strategy), **others)

    return with_choices
