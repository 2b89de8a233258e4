"""Remove jobs left behind by runs whose driver was killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.options import JSON_OPTION
from cenote.common.errors import BATCH_SYSTEM, USAGE, Problem, error

if TYPE_CHECKING:  # what `cenote clean --help` must not pay for
    from cenote.execution.runs.driver.left_behind import LeftBehind, Leftover, Search


@click.command("clean")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--run", metavar="ID", help="Only the run of this id.")
@click.option(
    "--all", "unseen", is_flag=True, help="Also include runs from other machines whose folder is not visible here."
)
@click.option("--force", is_flag=True, help="Also clean the named run while it is in progress.")
@click.option("--dry-run", is_flag=True, help="Only list what was left behind.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before removing.")
@JSON_OPTION
def command(
    folder: Path | None, *, run: str | None, unseen: bool, force: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Remove jobs and worker processes that runs left behind: their driver was killed, or its machine went down.

    It searches every batch system of this machine for your jobs, lists them, and asks before it removes them. FOLDER
    is the run's output folder (`cenote run --out`); without it, all your runs are searched. A run in progress is kept.
    """
    from cenote.common import storage
    from cenote.execution.runs.driver.left_behind import Search, find_left_behind, remove_jobs
    from cenote.execution.worker.process.scratch import remove_scratch_of_the_dead

    search = Search(folder, run)
    _refuse_contradictions(search, unseen=unseen, force=force)
    found = find_left_behind(search)
    chosen = _chosen(found, search, unseen=unseen, force=force)
    if not as_json:
        from cenote.cli.views.tables.left_behind import show_left_behind

        show_left_behind(found, chosen)
    something = bool(chosen or found.files or found.scratch)
    agreed = something and not dry_run and _agreed(chosen, found, yes=yes, quiet=as_json)
    stayed: tuple[Leftover, ...] = ()
    if agreed:
        stayed = remove_jobs(chosen)
        for file in found.files:
            storage.remove_unfinished(file)
        if found.scratch:
            remove_scratch_of_the_dead(found.scratch[0].parent)
    if as_json:
        click.echo(json.dumps(as_object(found, chosen if agreed else (), stayed), indent=2, ensure_ascii=False))
    elif agreed:
        _tell(chosen, found, stayed)
    if something and not dry_run and not agreed and not _can_ask(quiet=as_json):
        raise error(
            USAGE, "nothing was removed: not a terminal, so there is no way to ask", hint="--yes removes without asking"
        )
    return BATCH_SYSTEM.exit_code if found.silent or stayed else 0


def _refuse_contradictions(search: Search, *, unseen: bool, force: bool) -> None:
    if search.folder is not None and search.run is not None:
        raise error(USAGE, "FOLDER and --run both name a run", hint="name one of them")
    if search.named and unseen:
        raise error(USAGE, "--all covers all runs, but one run is named", hint="leave --all out")
    if force and not search.named:
        raise error(USAGE, "--force needs the name of a run", hint="cenote clean FOLDER --force, or --run ID --force")


def _chosen(found: LeftBehind, search: Search, *, unseen: bool, force: bool) -> tuple[Leftover, ...]:
    """The jobs to remove. Raises when all there is belongs to a run that goes on, and somebody asked for just that."""
    from cenote.cli.views.tables.left_behind import driver_of
    from cenote.execution.runs.driver.left_behind import DriverStatus

    statuses = [DriverStatus.OVER]
    statuses += [DriverStatus.UNKNOWN] if unseen or search.named else []
    statuses += [DriverStatus.DRIVEN] if force else []
    chosen = found.of(*statuses)
    driven = found.of(DriverStatus.DRIVEN)
    if search.named and driven and not chosen:
        place = driven[0].job.home.folder if driven[0].job.home else search.folder
        raise error(
            USAGE,
            f"run {driven[0].job.run} is in progress{driver_of(driven[0])}",
            hint=f"`cenote cancel {place}` ends it cleanly; --force cancels its jobs while it is running",
        )
    return chosen


def _agreed(jobs: tuple[Leftover, ...], found: LeftBehind, *, yes: bool, quiet: bool) -> bool:
    from cenote.cli.views.tables.left_behind import in_words

    if yes:
        return True
    if not _can_ask(quiet=quiet):
        return False
    agreed = click.confirm(f"Remove {in_words(jobs, found)}?", err=True)
    if not agreed:
        click.echo("nothing was removed")
    return agreed


def _can_ask(*, quiet: bool) -> bool:
    return sys.stdin.isatty() and not quiet


def _tell(jobs: tuple[Leftover, ...], found: LeftBehind, stayed: tuple[Leftover, ...]) -> None:
    from cenote.cli.views.problems import show_problems
    from cenote.cli.views.tables.left_behind import in_words

    gone = tuple(one for one in jobs if _key(one) not in map(_key, stayed))
    if gone or found.files or found.scratch:
        click.echo(f"removed {in_words(gone, found)}")
    if stayed:
        names = ", ".join(f"{one.system} {one.job.job} ({one.job.native})" for one in stayed)
        hint = "inspect them with the batch system's own commands, then run `cenote clean` again"
        show_problems([Problem(BATCH_SYSTEM, f"still queued after cancellation: {names}", hint=hint)])


def _key(one: Leftover) -> tuple[str, str]:
    return one.system, one.job.job


def as_object(found: LeftBehind, removed: tuple[Leftover, ...], stayed: tuple[Leftover, ...]) -> dict[str, Any]:
    """What `--json` prints."""
    gone = {_key(one) for one in removed} - {_key(one) for one in stayed}
    return {
        "jobs": [
            {
                "run": one.job.run,
                "folder": str(one.job.home.folder) if one.job.home else None,
                "host": one.job.home.host if one.job.home else None,
                "pool": one.job.pool,
                "worker": one.job.worker,
                "system": one.system,
                "job": one.job.job,
                "state": one.job.native,
                "since": one.job.since,
                "run_is": one.driver.value,
                "removed": _key(one) in gone,
            }
            for one in found.jobs
        ],
        "files": [str(file) for file in found.files],
        "scratch": [str(folder) for folder in found.scratch],
        "silent": {name: problem.message for name, problem in found.silent.items()},
    }
