"""Word how a run ended: what it left, what failed and where, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from cenote.common.text import FAILURE_CAUSES, first_of, plural, with_variations
from cenote.common.units import format_bytes, format_count, format_seconds
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import FailureRecord, ProductRecord, Summary
from cenote.execution.runs.view.task_names import products_for_people

MOST_FAILURES = 10
MOST_PICTURES = 12
MOST_PRODUCTS = 12
MOST_SKIPPED = 6
_STYLES = {"succeeded": "bold green", "partial": "bold yellow", "failed": "bold red", "cancelled": "bold yellow"}
_KINDS = {
    "render-failed": "could not be written out",
    "no-worker": "found no worker",
    "job-refused": "found no worker",
    "disk-full": "ran out of disk space",
    "no-access": "may not write",
    "broken-storage": "could not write",
    "bad-path": "could not write",
}


def outcome_lines(summary: Summary, *, folder: Path, pictures: Sequence[Path]) -> Iterator[Text]:
    """How it ended, and what it left."""
    yield status_line(summary)
    run = RunFolder(folder)
    yield from _product_rows(products_for_people(summary.products, summary.stages), run)
    shown = one_of_each(pictures)
    for position, picture in enumerate(shown[:MOST_PICTURES]):
        yield _row("" if position else "pictures", str(picture))
    if len(shown) > MOST_PICTURES:
        yield _row("", f"… and {len(shown) - MOST_PICTURES} more in {run.plots}")
    own = sorted(file for file in run.reports.rglob("*") if file.is_file())
    for position, page in enumerate([*([run.report] if run.report.is_file() else []), *own]):
        yield _row("" if position else "report", str(page))
    for position, file in enumerate(summary.skipped[:MOST_SKIPPED]):
        lost = "" if file.events is None else f", {plural(file.events, 'event')}"
        about = file.reason if file.file in file.reason else f"{file.file}: {file.reason}"
        yield _row("" if position else "skipped", f"{about} (dataset {file.dataset}{lost})")
    if len(summary.skipped) > MOST_SKIPPED:
        yield _row("", f"… and {plural(len(summary.skipped) - MOST_SKIPPED, 'more file')}, all in {run.summary}")
    for position, pool in enumerate(pool for pool in summary.pools if pool.workers_lost):
        why = f", the last one: {pool.last_loss}" if pool.last_loss else ""
        yield _row("" if position else "lost", f"{plural(pool.workers_lost, 'worker')} of {pool.name}{why}")
    if summary.fallbacks:
        moves = Counter[str]()
        for move in summary.fallbacks:
            moves[f"{move.stage}: {move.from_pool} → {move.to_pool}"] += move.tasks
        yield _row("fallbacks", ", ".join(f"{move} ({plural(count, 'task')})" for move, count in moves.items()))


def _product_rows(products: Sequence[tuple[ProductRecord, int]], folder: RunFolder) -> Iterator[Text]:
    for position, (product, variations) in enumerate(products[:MOST_PRODUCTS]):
        about = ", ".join(filter(None, (product.kind, product.description)))
        row = _row("" if position else "products", f"{with_variations(product.name, variations)} ({about})")
        if product.partial:
            row.append(" partial", "yellow")
        yield row
    if products:
        more = f"… and {len(products) - MOST_PRODUCTS} more, " if len(products) > MOST_PRODUCTS else ""
        yield _row("", f"{more}all in {folder.products}")


def one_of_each(pictures: Sequence[Path]) -> list[Path]:
    """A picture is written in several formats: the one that opens everywhere stands for all."""
    by_name: dict[Path, Path] = {}
    for picture in pictures:
        if picture.with_suffix("") not in by_name or picture.suffix == ".png":
            by_name[picture.with_suffix("")] = picture
    return list(by_name.values())


def _row(title: str, words: str) -> Text:
    return Text.assemble((f"  {title:<10}", "bold"), words)


def status_line(summary: Summary) -> Text:
    """`succeeded in 3.2 s: 120 tasks, 1.2 M events, at most 300 MB per task`."""
    tasks, status = summary.tasks, summary.status
    whole = plural(tasks.total, "task")
    words = [whole if tasks.done == tasks.total else f"{tasks.done:,} of {whole}"]
    if tasks.reused:
        words.append(f"{tasks.reused:,} of them reused")
    if summary.retries:
        words.append(f"{summary.retries:,} tried again")
    if lost := sum(pool.workers_lost for pool in summary.pools):
        words.append(f"{plural(lost, 'worker')} lost")
    if summary.events:
        words.append(f"{format_count(summary.events)} events")
    if summary.peak_memory:
        words.append(f"peak memory {format_bytes(summary.peak_memory)} per task")
    joint = "in" if status in {"succeeded", "partial"} else "after"
    return Text.assemble(
        (status, _STYLES.get(status, "bold")), f" {joint} {format_seconds(summary.seconds)}: {', '.join(words)}"
    )


def failure_lines(summary: Summary, *, folder: Path, again: str) -> Iterator[Text]:
    """What failed with its place, and what to do next; nothing after a success."""
    alike: dict[tuple[object, ...], list[FailureRecord]] = {}
    for failure in summary.failures:
        key = failure.stage, failure.cause, failure.message, failure.traceback
        alike.setdefault(key, []).append(failure)
    for failures in list(alike.values())[:MOST_FAILURES]:
        yield from _failure(failures[0], others=failures[1:])
    if len(alike) > MOST_FAILURES:
        yield Text(f"… and {len(alike) - MOST_FAILURES} more kinds of failure, all in {RunFolder(folder).summary}")
    if summary.status != "succeeded":
        yield Text.assemble(("next: ", "cyan"), _next_step(summary, again=again))


def _failure(failure: FailureRecord, *, others: Sequence[FailureRecord]) -> Iterator[Text]:
    """`RunInference raised an exception on data/muons.root, events 0 to 5,000 (dataset data): ValueError: …`."""
    cause = _KINDS.get(failure.kind or "", FAILURE_CAUSES.get(failure.cause, "failed"))
    text = Text.assemble((failure.stage or "the run", "bold red"), f" {cause}")
    if failure.file:
        text.append(f" on {failure.file}")
    if failure.entries:
        text.append(", events {:,} to {:,}".format(*failure.entries))
    if failure.dataset:
        text.append(f" (dataset {failure.dataset})")
    message, *more = failure.message.splitlines() or [""]
    text.append(f": {message}")
    if failure.attempts > 1:
        text.append(f" [{failure.attempts} attempts]", "dim")
    yield text
    yield from (Text(line) for line in more)
    if failure.traceback:
        yield Text("\n".join(f"    {line}" for line in failure.traceback.rstrip().splitlines()), style="dim")
    if others:
        files = {other.file for other in others if other.file} - {failure.file}
        where = f", also of {first_of(sorted(files))}" if files else ""
        yield Text(f"    and likewise on {plural(len(others), 'more partition')}{where}")


def _next_step(summary: Summary, *, again: str) -> str:
    kept = summary.tasks.kept  # not known of a run that was cut off
    keeps = f", which keeps {plural(kept, 'finished task')}" if kept else ""
    if summary.status in {"cancelled", "interrupted"}:
        return f"continue with `{again}`{keeps}"
    if summary.status == "partial":
        return f"fix the input or the code, then `{again}`{keeps}; products are marked partial until then"
    return f"fix it, then `{again}`{keeps}; `--keep-going` processes the remaining data anyway"
