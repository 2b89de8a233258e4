"""Build launches of any command, for tests of strategies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cenote.execution.launch import Launch, LaunchingRun, Part, RunLocation, SentFile, Word, words
from cenote.language.execution import Amounts


def a_launch(
    *command: Part | Word,
    run: str = "r1",
    pool: str = "gpu",
    folder: Path = Path("/run"),
    location: RunLocation | None = None,
    resources: Amounts | None = None,
    variables: Mapping[str, str | Word] | None = None,
    setup: tuple[Word, ...] = (),
    files: tuple[SentFile, ...] = (),
) -> Launch:
    """Workers that run this command; what they print goes to `out` and `err` of the folder."""
    program, *arguments = words(*command)
    return Launch(
        run=LaunchingRun(run, folder, location),
        pool=pool,
        resources=resources or Amounts(cpus=1),
        module=None,
        interpreter=(program,),
        arguments=tuple(arguments),
        setup=setup,
        files=files,
    ).with_variables(**variables or {})
