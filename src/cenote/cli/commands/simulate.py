"""Predict how long a workflow takes and where it waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.completions import complete_stage_value
from cenote.cli.options import JSON_OPTION, SERVICE_OPTION, Choices, optional_workflow_choices
from cenote.common.errors import USAGE, error
from cenote.common.text import did_you_mean, listed
from cenote.common.units import format_seconds, parse_seconds

if TYPE_CHECKING:  # what `cenote simulate --help` must not pay for
    from cenote.engine.simulate import DurationModel, Prediction
    from cenote.planning.plan import Plan


@click.command("simulate")
@optional_workflow_choices
@JSON_OPTION
@click.option(
    "--seconds-per-task",
    "given",
    multiple=True,
    metavar="STAGE=SECONDS",
    shell_complete=complete_stage_value,
    help="How long a task of a stage takes.",
)
@click.option(
    "--from", "earlier", type=click.Path(path_type=Path), help="Take task durations from the run in this folder."
)
@click.option("--startup", default="5s", show_default=True, help="Time from requesting a worker until it joins.")
@click.option("--queue", is_flag=True, help="Predict when the tasks that wait in the queue of the service would start.")
@click.option(
    "--duration", default="10m", show_default=True, help="With --queue: of instances that nothing is known of."
)
@SERVICE_OPTION
def command(
    choices: Choices | None,
    *,
    as_json: bool,
    given: tuple[str, ...],
    earlier: Path | None,
    startup: str,
    queue: bool,
    duration: str,
    service: str | None,
) -> None:
    """Predict how a workflow, or the queue of the service, would run: nothing is run, and no worker is started.

    The engine of real runs takes the decisions; workers and durations are modelled. A stage without known durations
    counts one second per task.
    """
    if queue:
        if choices is not None:
            raise error(USAGE, "`--queue` is about the queue of the service: name no FILE")
        _show_queue(service, _seconds("--duration", duration), _seconds("--startup", startup), as_json=as_json)
        return
    if choices is None:
        raise error(USAGE, "which workflow? name its FILE", hint="`--queue` predicts the queue of the service")
    from cenote.cli.console import messages
    from cenote.cli.views.progress.live import progress_on
    from cenote.engine.simulate import DurationModel, gains, predict

    with progress_on(messages(), title=choices.name.name) as progress:
        plan = choices.load().plan(progress=progress.planning)
    seconds = {**_seconds_of_run(earlier), **dict(_parsed(text, plan) for text in given)}
    model = DurationModel(seconds, startup=_seconds("--startup", startup))
    predicted = predict(plan, model)
    more = gains(plan, model, predicted)
    if as_json:
        click.echo(json.dumps(as_object(predicted, more), indent=2))
    else:
        _show(plan, model, predicted, more)


def _show_queue(service: str | None, duration: int, startup: int, *, as_json: bool) -> None:
    from cenote.cli.console import output
    from cenote.cli.views.tables.service import forecast_rows
    from cenote.planning.record import json_text
    from cenote.service.client.connection import connect

    with connect(service, start=False) as connection:
        found = connection.forecast(duration=duration, startup=startup)
    if as_json:
        click.echo(json_text({"tasks": found.tasks}))
    else:
        output().print(forecast_rows(found.tasks))


def _seconds(option: str, text: str) -> int:
    try:
        return parse_seconds(text)
    except ValueError as problem:
        raise error(USAGE, f"{option}: {problem}") from None


def _parsed(text: str, plan: Plan) -> tuple[str, float]:
    """`RunInference=1.5` → its parts."""
    stage, _, number = text.partition("=")
    names = [summary.stage for summary in plan.stages]
    if stage not in names:
        details = [f"its stages: {listed(names)}"]
        raise error(USAGE, f"this workflow has no stage '{stage}'", details=details, hint=did_you_mean(stage, names))
    try:
        return stage, float(number)
    except ValueError:
        message = f"--seconds-per-task {text}: '{number}' is not a number of seconds"
        raise error(USAGE, message, hint=f"write --seconds-per-task {stage}=1.5") from None


def _seconds_of_run(folder: Path | None) -> dict[str, float]:
    """What one task of each stage took in an earlier run."""
    if folder is None:
        return {}
    from cenote.api import open_run

    summary = open_run(folder).record
    stages = () if summary is None else summary.stages
    return {one.id: one.seconds / (one.done - one.reused) for one in stages if one.done > one.reused}


def as_object(predicted: Prediction, more: dict[str, float]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "status": predicted.status,
        "seconds": round(predicted.seconds, 3),
        "cost": predicted.cost,
        "moved": predicted.moved,
        "bottleneck": predicted.bottleneck.name if predicted.bottleneck else None,
        "pools": [
            {
                "name": pool.name,
                "workers": pool.workers,
                "slots": pool.slots,
                "tasks": pool.tasks,
                "slot_seconds_busy": round(pool.busy, 3),
                "slot_seconds_idle": round(pool.offered - pool.busy, 3),
                "use": round(pool.use, 4),
                "bound": round(pool.bound, 3),
                "cost": pool.cost,
                "one_more_worker_saves": round(more[pool.name], 3) if pool.name in more else None,
            }
            for pool in predicted.pools
        ],
    }


def _show(plan: Plan, model: DurationModel, predicted: Prediction, more: dict[str, float]) -> None:
    from rich.table import Table

    from cenote.cli.console import output
    from cenote.common.text import plural

    console = output()
    cost = "" if predicted.cost is None else f", cost {predicted.cost:.4g}"
    console.print(f"{predicted.status} after about {format_seconds(predicted.seconds)}{cost}", soft_wrap=True)
    if predicted.status == "stuck":
        console.print("it would never finish: `cenote plan` shows which stages wait for which pools")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("pool", "workers", "tasks", "use", "cost", "one more worker"):
        table.add_column(column, justify="left" if column in ("pool", "one more worker") else "right", no_wrap=True)
    for pool in predicted.pools:
        table.add_row(
            pool.name,
            f"{pool.workers} × {pool.slots}",
            f"{pool.tasks:,}",
            f"{pool.use:.0%}",
            "" if pool.cost is None else f"{pool.cost:.4g}",
            _gain(more.get(pool.name), predicted.seconds),
        )
    console.print(table)
    if limit := predicted.bottleneck:
        console.print(
            f"bottleneck: pool '{limit.name}', whose work alone fills {format_seconds(limit.bound)}", soft_wrap=True
        )
    if predicted.moved:
        console.print(f"{plural(predicted.moved, 'task')} would fall back to another pool")
    unknown = [summary.stage for summary in plan.stages if summary.stage not in model.seconds]
    if unknown:
        console.print(f"task durations of {listed(unknown)} are unknown: set them with --seconds-per-task or --from")


def _gain(saved: float | None, whole: float) -> str:
    if saved is None:
        return ""
    if abs(saved) < 0.005 * whole:
        return "changes nothing"
    return f"saves {format_seconds(saved)}" if saved > 0 else f"costs {format_seconds(-saved)}"
