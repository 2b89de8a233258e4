"""Read the folder of a run into a record; whatever the run did not leave is simply not there."""

from __future__ import annotations

import shlex
from pathlib import Path

from cenote import errors
from cenote.report.json_fields import Fields
from cenote.report.read_journal import read_timeline
from cenote.report.read_products import read_cutflows, read_pictures
from cenote.report.run_record import (
    FailureRecord,
    FallbackRecord,
    InputRecord,
    PoolRecord,
    ProductRecord,
    RunRecord,
    SegmentRecord,
    StageRecord,
)
from cenote.report.task_names import TaskNames
from cenote.units import format_bytes


def read_run(folder: Path) -> RunRecord:
    """What is known of the run in this folder. A folder without one is an error."""
    summary = Fields.from_file(folder / "summary.json")
    plan = Fields.from_file(folder / "plan.json")
    journal = folder / "journal.jsonl"
    if not summary and not plan and not journal.is_file():
        raise errors.error(
            errors.NO_RUN,
            f"{folder} holds no run: it has neither summary.json nor journal.jsonl",
            hint="name the folder that was given to `cenote run --out`",
        )
    provenance = Fields.from_file(folder / "provenance.json")
    stages = _stages(summary, plan)
    tasks = summary.inner("tasks")
    products = _products(summary)
    command = provenance.texts("command")
    return RunRecord(
        name=plan.text("workflow") or Path(provenance.inner("workflow").text("file")).name or folder.name,
        status=summary.text("status", "unfinished"),
        started=summary.text("started"),
        ended=summary.text("ended"),
        resumed=summary.flag("resumed"),
        seconds=summary.number("seconds") or 0.0,
        cpu_seconds=summary.number("cpu_seconds") or 0.0,
        events=summary.whole("events"),
        bytes_read=summary.whole("bytes_read"),
        peak_memory=summary.whole("peak_memory", max((stage.peak_memory for stage in stages), default=0)),
        tasks=tasks.whole("total", plan.whole("tasks")),
        done=tasks.whole("done"),
        failed=tasks.whole("failed"),
        reused=tasks.whole("reused"),
        retries=summary.whole("retries"),
        command=shlex.join(command) if command else "",
        stages=stages,
        pools=_pools(summary, plan),
        segments=tuple(
            SegmentRecord(one.text("name"), one.texts("stages"), one.texts("pools"), one.whole("tasks"))
            for one in plan.objects("segments")
        ),
        picture=_picture(folder, plan),
        timeline=read_timeline(journal),
        task_names=TaskNames(plan),
        failures=tuple(_failure(one) for one in summary.objects("failures")),
        fallbacks=tuple(_fallback(one) for one in summary.objects("fallbacks")),
        warnings=tuple(dict.fromkeys((*plan.texts("warnings"), *summary.texts("warnings")))),
        products=products,
        pictures=read_pictures(folder, products),
        cutflows=read_cutflows(folder / "products"),
        inputs=tuple(_input(one) for one in provenance.objects("inputs")),
        software=_software(provenance),
        facts=_facts(provenance, plan),
    )


def _stages(summary: Fields, plan: Fields) -> tuple[StageRecord, ...]:
    """In the order of the plan; those that only the summary knows come last."""
    happened = {one.text("id"): one for one in summary.objects("stages")}
    planned = {one.text("id"): one for one in plan.objects("stages")}
    return tuple(
        _stage(name, happened.get(name, Fields(None)), planned.get(name, Fields(None)))
        for name in dict.fromkeys((*planned, *happened))
    )


def _stage(name: str, happened: Fields, planned: Fields) -> StageRecord:
    segment = planned.number("segment")
    return StageRecord(
        id=name,
        op=happened.text("op") or planned.text("op"),
        pools=happened.counts("pools"),
        planned_pools=planned.texts("pools"),
        verdict=planned.text("verdict"),
        reason=planned.text("reason"),
        segment=None if segment is None else int(segment),
        tasks=happened.whole("tasks", planned.whole("tasks")),
        done=happened.whole("done"),
        failed=happened.whole("failed"),
        reused=happened.whole("reused"),
        seconds=happened.number("seconds") or 0.0,
        peak_memory=happened.whole("peak_memory"),
        events_in=happened.whole("events_in"),
        events_out=happened.whole("events_out"),
        rate=happened.number("rate"),
    )


def _pools(summary: Fields, plan: Fields) -> tuple[PoolRecord, ...]:
    happened = {one.text("name"): one for one in summary.objects("pools")}
    planned = {one.text("name"): one for one in plan.objects("pools")}
    return tuple(
        _pool(name, happened.get(name, Fields(None)), planned.get(name, Fields(None)))
        for name in dict.fromkeys((*planned, *happened))
    )


def _pool(name: str, happened: Fields, planned: Fields) -> PoolRecord:
    elastic = planned.inner("elastic")
    size = f"{elastic.whole('min')} to {elastic.text('max', '∞')}" if elastic else planned.text("workers", "–")
    return PoolRecord(
        name=name,
        strategy=happened.text("strategy") or planned.text("strategy"),
        state=happened.text("state", "–"),
        resources=_amounts(planned.inner("resources")),
        slots=planned.whole("slots", happened.whole("slots", 1)),
        workers=size,
        workers_started=happened.whole("workers_started"),
        workers_lost=happened.whole("workers_lost"),
        tasks=happened.whole("tasks"),
        busy=happened.number("slot_seconds_busy") or 0.0,
        idle=happened.number("slot_seconds_idle") or 0.0,
        cost=happened.number("cost"),
    )


def _amounts(resources: Fields) -> str:
    """`8 CPUs, 64 GB, 1 GPU` of one worker."""
    parts = []
    for key, word in (("cpus", "CPU"), ("gpus", "GPU")):
        amount = resources.number(key)
        if amount:
            parts.append(f"{amount:g} {word}{'' if amount == 1 else 's'}")
    for key, word in (("memory", ""), ("disk", " disk")):
        amount = resources.number(key)
        if amount:
            parts.append(f"{format_bytes(amount)}{word}")
    return ", ".join(parts) or "–"


def _failure(one: Fields) -> FailureRecord:
    entries = one.texts("entries")
    known = [(key, one.text(key)) for key in ("dataset", "file", "task", "pool", "worker", "attempts", "at", "kind")]
    if entries:
        known.insert(2, ("entries", " to ".join(entries)))
    return FailureRecord(
        stage=one.text("stage", "–"),
        message=one.text("message", "no message"),
        cause=one.text("cause"),
        where=tuple((key, value) for key, value in known if value),
        traceback=one.text("traceback"),
    )


def _fallback(one: Fields) -> FallbackRecord:
    return FallbackRecord(
        stage=one.text("stage", "–"),
        task=one.text("task") or f"{one.text('tasks', 'all')} that waited",
        from_pool=one.text("from", "–"),
        to_pool=one.text("to", "–"),
        reason=one.text("reason", "–"),
        at=one.text("at"),
    )


def _products(summary: Fields) -> tuple[ProductRecord, ...]:
    return tuple(
        ProductRecord(
            name=one.text("name"),
            kind=one.text("kind"),
            description=one.text("description"),
            files=one.texts("files"),
            plots=one.texts("plots"),
            partial=one.flag("partial"),
        )
        for one in summary.objects("products")
    )


def _input(one: Fields) -> InputRecord:
    size = one.number("size")
    stamp = one.text("sha256") or one.text("checksum") or one.text("stamp")
    return InputRecord(
        one.text("dataset"), one.text("file"), None if size is None else int(size), one.whole("events"), stamp
    )


def _software(provenance: Fields) -> tuple[tuple[str, str], ...]:
    main = [(name, provenance.text(name)) for name in ("cenote", "python", "platform")]
    return tuple((name, text) for name, text in (*main, *provenance.inner("software").items()) if text)


def _facts(provenance: Fields, plan: Fields) -> tuple[tuple[str, str], ...]:
    workflow, git = provenance.inner("workflow"), provenance.inner("git")
    changed = " (with changes that are not committed)" if git.flag("changed") else ""
    facts = [
        ("workflow", workflow.text("file")),
        ("its SHA-256", workflow.text("sha256")),
        ("git commit", f"{git.text('commit')}{changed}" if git.text("commit") else ""),
        ("plan", provenance.text("plan") or plan.text("digest")),
        ("backend", plan.text("backend")),
    ]
    facts += [("plugin", one.text("file") or one.text("module")) for one in provenance.objects("plugins")]
    return tuple((name, text) for name, text in facts if text)


def _picture(folder: Path, plan: Fields) -> str:
    try:
        return plan.text("svg") or (folder / "plan.svg").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
