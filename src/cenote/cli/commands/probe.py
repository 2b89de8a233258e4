"""Test each pool and report what a worker finds on its node."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices
from cenote.common.errors import NO_WORKER, USAGE, error
from cenote.common.units import parse_seconds

if TYPE_CHECKING:  # what `cenote probe --help` must not pay for
    from cenote.execution.probe.run import PoolProbe, ProbeResult


@click.command("probe")
@workflow_choices
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Output folder of the run; the probe checks that nodes can write there.  [default: out/<name of the file>]",
)
@click.option(
    "--wait", default="5m", show_default=True, metavar="TIME", help="How long a probe job may wait in the queue."
)
@JSON_OPTION
def command(choices: Choices, *, out: Path | None, wait: str, as_json: bool) -> int:
    """Test each pool with one short job, started as a worker would be.

    The job checks the connection to the driver, Python, packages, plugins, cpus, memory, GPUs, scratch space, the
    run's folder, credentials and the data. It runs no stage and leaves nothing behind. `plan` and `why` show the latest
    result.
    """
    from cenote.cli.console import messages, output
    from cenote.cli.views.progress.probe import probe_progress_on
    from cenote.cli.views.tables.probe import show_probe

    try:
        patience = float(parse_seconds(wait))
    except ValueError as problem:
        raise error(USAGE, f"--wait: {problem}") from None
    with probe_progress_on(messages(), quiet=as_json, title=choices.name.name) as progress:
        result = choices.load().probe(
            out, wait=patience, listen=progress, progress=progress.planning, packing=progress.packing
        )
    if as_json:
        click.echo(json.dumps(as_object(result, choices.name), indent=2, ensure_ascii=False))
    else:
        show_probe(result, output())
    return NO_WORKER.exit_code if result.verdict == "problem" else 0


def as_object(result: ProbeResult, file: Path) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "workflow": file.name,
        "verdict": result.verdict,
        "at": datetime.fromtimestamp(result.at, UTC).isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "jobs": result.jobs,
        "pools": [_pool(pool) for pool in result.pools],
    }


def _pool(pool: PoolProbe) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": pool.pool,
        "strategy": pool.strategy,
        "verdict": pool.verdict,
        "job": pool.job or None,
        "waited": None if pool.waited is None else round(pool.waited, 3),
        "findings": [asdict(finding) for finding in pool.findings],
        "node": None
        if pool.report is None
        else {key: value for key, value in asdict(pool.report).items() if key not in ("pool", "token")},
    }
