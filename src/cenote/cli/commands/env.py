"""Pack environments for workers, and look after the packed ones."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices
from cenote.common.errors import BAD_ENVIRONMENT, USAGE, CenoteError, Problem, error
from cenote.common.units import parse_seconds

if TYPE_CHECKING:  # what `cenote env --help` must not pay for
    from cenote.execution.packing.stock import Stock, StockRecord


@click.group("env")
def command() -> None:
    """Pack environments for workers, and look after the packed ones.

    A run packs what it needs by itself, and finds it again the next time. Archives are kept in the user's cache folder
    ($CENOTE_CACHE, else ~/.cache/cenote). An archive is named by the first characters of its digest.
    """


@command.command("pack", short_help="Pack the environments of a workflow.")
@workflow_choices
@JSON_OPTION
def pack(choices: Choices, *, as_json: bool) -> None:
    """Pack the environments that the pools of a workflow name, as a run would; what is packed already is found."""
    from cenote.cli.console import messages, output
    from cenote.cli.streams import user_code_aside
    from cenote.cli.views.progress.live import progress_on
    from cenote.cli.views.tables.stock import show_packed
    from cenote.common import signals
    from cenote.execution.runs.configured import PoolEnvironments

    workflow = choices.load().workflow
    environments = PoolEnvironments(workflow, [pool.name for pool in workflow.execution.pools])
    title = choices.name.name
    with user_code_aside(), signals.raised(), progress_on(messages(), quiet=as_json, title=title) as progress:
        if problems := environments.environment_problems():
            raise CenoteError(problems)
        environments.prepare(progress.packing)
        described = environments.describe()
    if as_json:
        _print({"workflow": title, "pools": described})
    else:
        show_packed(described, output())


@command.command("list", short_help="List the packed environments.")
@JSON_OPTION
def list_archives(*, as_json: bool) -> None:
    """List what was packed: kind, size, Python, when a run last used it, and what it was made from."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.stock import record_as_json, show_stock

    stock = _stock()
    records = stock.records()
    if as_json:
        _print({"folder": str(stock.folder), "archives": [record_as_json(one, stock) for one in records]})
    else:
        show_stock(records, stock, output(), now=time.time())


@command.command("show", short_help="Show what is in a packed environment.")
@click.argument("archive")
@JSON_OPTION
def show(archive: str, *, as_json: bool) -> None:
    """Show what is in a packed environment: digest, platform, Python, packages."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.stock import record_as_json, show_record

    stock = _stock()
    record = _named(stock, [archive])[0]
    if as_json:
        _print(record_as_json(record, stock))
    else:
        show_record(record, stock, output(), now=time.time())


@command.command("verify", short_help="Read packed environments again and compare their digests.")
@click.argument("archives", nargs=-1)
@JSON_OPTION
def verify(archives: Sequence[str], *, as_json: bool) -> int:
    """Read archives again, all of them unless some are named, and compare their digests.

    The next run packs anew what is damaged.
    """
    from cenote.cli.console import messages
    from cenote.cli.views.progress.live import progress_on
    from cenote.cli.views.tables.stock import SHORT, in_words
    from cenote.common import signals

    stock = _stock()
    records = _named(stock, archives)
    with signals.raised(), progress_on(messages(), quiet=as_json, title="verify") as progress:
        found = {one.key: stock.damage(one, progress.packing) for one in records}
    damaged = [one for one in records if found[one.key]]
    for one in damaged:
        stock.forget(one)
    if as_json:
        told = [{"digest": one.digest, "source": one.source, "problem": found[one.key] or None} for one in records]
        _print({"ok": not damaged, "archives": told})
    elif damaged:
        again = "the next run packs it anew"
        named = ((f"{one.digest[:SHORT]} ({one.source})", found[one.key]) for one in damaged)
        raise CenoteError(Problem(BAD_ENVIRONMENT, f"{name}: {words}", hint=again) for name, words in named)
    else:
        click.echo(f"{in_words(records)}: no damage")
    return BAD_ENVIRONMENT.exit_code if damaged else 0


@command.command("clean", short_help="Remove packed environments that are not used any more.")
@click.argument("archives", nargs=-1)
@click.option(
    "--older-than", metavar="TIME", help="Those that no run has used for so long.  [default: 30d, if nothing is named]"
)
@click.option("--unused", is_flag=True, help="Those for which the same source has been packed again since.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@JSON_OPTION
def clean(archives: Sequence[str], *, older_than: str | None, unused: bool, everything: bool, as_json: bool) -> None:
    """Remove archives that are named, or that are old, and whatever processes left that were killed.

    What a run in progress uses, or somebody is packing, stays. Copies on nodes are removed there, after two weeks.
    """
    from cenote.cli.views.tables.stock import cleaned_in_words, record_as_json

    stock = _stock()
    records = stock.records()
    chosen = {one.key for one in (_named(stock, archives) if archives else records if everything else ())}
    if unused:
        newest = {(one.kind, one.source): one.key for one in sorted(records, key=lambda one: one.made_at)}
        chosen |= {one.key for one in records if newest[one.kind, one.source] != one.key}
    if older_than is None and not (archives or everything or unused):
        older_than = "30d"
    if older_than is not None:
        before = time.time() - _seconds(older_than)
        chosen |= {one.key for one in records if one.used_at <= before}
    cleaned = stock.clean(lambda one: one.key in chosen)
    if as_json:
        removed, kept = ([record_as_json(one, stock) for one in some] for some in (cleaned.removed, cleaned.in_use))
        _print({"removed": removed, "in_use": kept, "strays": cleaned.strays})
    else:
        click.echo(cleaned_in_words(cleaned))


def _stock() -> Stock:
    from cenote.execution.packing.stock import Stock

    return Stock()


def _named(stock: Stock, names: Sequence[str]) -> list[StockRecord]:
    """Those whose digest begins so; all of them where none is named."""
    records = stock.records()
    if not names:
        return records
    found = []
    for name in names:
        matching = [one for one in records if one.digest.startswith(name)]
        if not matching:
            raise error(USAGE, f"no archive has a digest that begins with '{name}'", hint="see `cenote env list`")
        if len({one.digest for one in matching}) > 1:
            raise error(USAGE, f"several archives have a digest that begins with '{name}'", hint="write more of it")
        found += matching
    return found


def _seconds(written: str) -> int:
    try:
        return parse_seconds(written)
    except ValueError as problem:
        raise error(USAGE, f"--older-than: {problem}") from None


def _print(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
