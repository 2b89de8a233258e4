"""Show, verify, clean and share the results kept for later runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.options import JSON_OPTION
from cenote.common.errors import DAMAGED_RESULT, NO_ACCESS, USAGE, CenoteError, Problem, error
from cenote.common.units import format_bytes, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from cenote.execution.runtime.result_store.look import Place

PATH_OPTION = click.option(
    "--path",
    metavar="PATH",
    help="The folder of the store, its address, or the folder of a run that keeps its own.  "
    "[default: $CENOTE_STORE, else the user's cache]",
)


@click.group("store")
def command() -> None:
    """Show, verify, clean and share the results kept for later runs.

    A run computes nothing that is there: results of partitions and merges by what they were made from, whichever folder
    and workflow they were made for. `execution.store` says where they are, and how many.
    """


@command.command("show", short_help="Show what is kept, and where.")
@PATH_OPTION
@JSON_OPTION
def show(path: str | None, *, as_json: bool) -> None:
    """Show where results are kept, how many, of which stages, and when they were last of use."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.kept import content_as_json, show_content
    from cenote.execution.runtime.result_store.look import content_of

    content = content_of(_place(path), _warn)
    if as_json:
        _print(content_as_json(content))
    else:
        show_content(content, output())


@command.command("verify", short_help="Read all results and name those that are damaged.")
@PATH_OPTION
@JSON_OPTION
def verify(path: str | None, *, as_json: bool) -> int:
    """Read all results again, and name those that are damaged: runs make them again.

    In a store that several people share, those of trusted people are read as well.
    """
    from cenote.common import signals
    from cenote.execution.runtime.result_store.look import damage_in

    place = _place(path)
    with signals.raised():
        found = list(damage_in(place, _warn))
    if as_json:
        told = [{"pack": one.pack, "id": one.id, "product": one.name, "owner": one.owner or None} for one in found]
        _print({"ok": not found, "damaged": told})
    elif found:
        again = "the next run that needs it makes it again"
        raise CenoteError(
            Problem(DAMAGED_RESULT, f"{one.pack}: a result of '{one.name}' is damaged", hint=again) for one in found
        )
    else:
        click.echo(f"{place}: no damage")
    return DAMAGED_RESULT.exit_code if found else 0


@command.command("clean", short_help="Remove results that are not used any more.")
@PATH_OPTION
@click.option(
    "--older-than", metavar="TIME", help="Those that were of no use for so long.  [default: 30d, if nothing is named]"
)
@click.option("--to", metavar="SIZE", help="Those of no use for longest, until no more than so much is left.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@JSON_OPTION
def clean(path: str | None, *, older_than: str | None, to: str | None, everything: bool, as_json: bool) -> None:
    """Remove your own results: old ones, all, or as many as it takes. What a run in progress needs stays."""
    from cenote.execution.runtime.result_store.look import clean as clean_store

    if older_than is None and to is None and not everything:
        older_than = "30d"
    try:
        seconds = 0 if everything else None if older_than is None else parse_seconds(older_than)
        limit = None if to is None else parse_bytes(to)
    except ValueError as problem:
        raise error(USAGE, f"{'--older-than' if to is None else '--to'}: {problem}") from None
    place = _place(path)
    won = clean_store(place, unused_for=seconds, limit=limit)
    if as_json:
        _print({"folder": str(place), "removed_bytes": won})
    else:
        click.echo(f"{place}: removed {format_bytes(won)}" if won else f"{place}: nothing to remove")


@command.command("key", short_help="Print the key that others trust your results by.")
@JSON_OPTION
def key(*, as_json: bool) -> None:
    """Print your public key, for those who share a store with you: `cenote store trust` takes it."""
    from cenote.execution.runtime.result_store.table import myself

    me = myself()
    if as_json:
        _print({"key": me.written(), "fingerprint": me.fingerprint})
    else:
        click.echo(me.written())


@command.command("trust", short_help="Use another person's results.")
@click.argument("keys", nargs=-1, required=True)
@JSON_OPTION
def trust(keys: Sequence[str], *, as_json: bool) -> None:
    """Use results that were signed with these keys: files of keys, or what `cenote store key` printed, in quotes.

    Only data is read from others: histograms, cutflows, tables and arrays, never code.
    """
    from cenote.execution.runtime.result_store.table import person_in, personal_folder
    from cenote.execution.runtime.result_store.table import trust as trust_people

    people = []
    for written in keys:
        lines = Path(written).read_text(encoding="utf-8").splitlines() if Path(written).is_file() else [written]
        try:
            people += [person_in(line) for line in lines if line.strip()]
        except ValueError as problem:
            raise error(USAGE, str(problem), hint="`cenote store key` prints one") from None
    try:
        new = trust_people(people)
    except PermissionError as problem:
        raise error(NO_ACCESS, str(problem), hint="`chmod 600` it, if all keys in it are right") from None
    if as_json:
        _print({"file": str(personal_folder() / "trusted"), "new": [one.written() for one in new]})
    else:
        for one in people:
            click.echo(f"{one.name}: {'trusted' if one in new else 'was trusted already'}")


def _place(path: str | None) -> Place:
    from cenote.execution.runs.folder import RunFolder
    from cenote.execution.runtime.result_store.store import place_of, usual_place

    if path is None:
        return usual_place(_warn)
    place = place_of(path, _warn)
    if isinstance(place, Path) and (run := RunFolder(place)).holds_run:
        return run.results
    return place


def _warn(words: str) -> None:
    from cenote.cli.console import messages

    messages().print(f"warning: {words}", markup=False, highlight=False, soft_wrap=True)


def _print(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
