"""Lay out what a site provides, for its users to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cenote.cli.views.site_facts import in_words, network, own_pools, pool_facts, strategies
from cenote.common.text import format_amounts
from cenote.common.units import format_seconds
from cenote.language.checks.site import Site
from cenote.language.execution import ExecutionSettings, Pool
from cenote.language.layers.site import site_places


def nothing_found() -> Iterator[RenderableType]:
    """What there is to say without a site."""
    yield Text("No site configuration found: built-in defaults and the workflow apply.")
    yield Text()
    yield facts([("looked in" if not number else "", words) for number, (words, _) in enumerate(site_places())])


def site_lines(site: Site) -> Iterator[RenderableType]:
    """The whole page."""
    yield from _head(site)
    yield from _section("defaults", facts(list(_defaults(site))))
    if pools := own_pools(site):
        yield from _section("default pools", _pool_table("pool", site, pools))
    if site.profiles:
        yield from _section("pool profiles, for `use:`", _pool_table("profile", site, site.profiles))
    yield from _section("network and scratch", facts(list(_network(site))))
    for name, settings in strategies(site).items():
        if words := in_words(settings):
            yield from _section(f"settings of {name}, for all pools", facts(list(words.items())))
    yield Text()
    yield Text(
        "Workflows, profiles and the command line may override this; `cenote plan` shows which one did.", style="dim"
    )


def _head(site: Site) -> Iterator[RenderableType]:
    about = site.about
    if about is None:
        return
    yield Text(about.name, style="bold")
    if about.description:
        yield Text(about.description)
    yield Text()
    rows = {"file": str(site.file), "help": about.contact, "docs": about.docs}
    yield facts([(key, value) for key, value in rows.items() if value])


def _defaults(site: Site) -> Iterator[tuple[str, str]]:
    execution = site.execution
    implied = "backend" not in site.chosen and execution.backend != ExecutionSettings.backend
    yield "backend", f"{execution.backend} (follows from the strategy)" if implied else execution.backend
    yield "strategy", execution.strategy
    for key, pool in (("cpu", execution.defaults.cpu), ("gpu", execution.defaults.gpu)):
        if pool:
            yield f"{key} pool", pool


def _network(site: Site) -> Iterator[tuple[str, str]]:
    joined = network(site)
    if joined is None:
        yield "unknown", "workers on other machines need Dask, which is not installed: install cenote[dask]"
        return
    words = in_words(joined)
    address = words.get("host") or _interface(words.get("interface")) or "the address of its machine to the outside"
    yield "driver listens on", f"{address}, {_port(words.get('port'))}"
    if "contact" in words:
        yield "workers reach it at", words["contact"]
    theirs = _interface(words.get("worker_interface")) or "the interface that faces the driver"
    yield "workers listen on", f"{theirs}, {_port(words.get('worker_ports'))}"
    yield "scratch folder", words.get("scratch") or "the node's own for temporary files"


def _interface(name: str | None) -> str | None:
    return f"interface {name}" if name else None


def _port(ports: str | None) -> str:
    if not ports or ports == "0":
        return "any free port"
    return f"the first free port of {ports}" if "-" in ports else f"port {ports}"


def _pool_table(title: str, site: Site, pools: Sequence[Pool]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in (title, "strategy", "workers", "each worker", "walltime", "settings"):
        table.add_column(column, overflow="fold")
    table.columns[0].no_wrap = True
    for pool in pools:
        one = pool_facts(site, pool)
        built_in = pool in site.profiles and pool.name not in site.own_profiles
        table.add_row(
            Text.assemble((pool.name, "bold"), (" (built-in)" if built_in else "", "dim")),
            one.strategy,
            _workers(pool),
            format_amounts(pool.resources) or "anything",
            format_seconds(one.walltime) if one.walltime else "",
            ", ".join(f"{key} {value}" for key, value in one.words.items()),
        )
    return table


def _workers(pool: Pool) -> str:
    if pool.elastic:
        return f"{pool.elastic.min} to {pool.elastic.max}"
    return "one per core" if pool.workers is None else str(pool.workers)


def facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Titles and what stands behind them."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for title, words in rows:
        table.add_row(title, words)
    return table


def _section(title: str, content: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, style="bold underline")
    yield content
