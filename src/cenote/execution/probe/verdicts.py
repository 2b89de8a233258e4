"""Judge what a probe found on its node against what the driver has and the pool promises."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cenote.common import software
from cenote.common.text import listed
from cenote.common.units import format_bytes, format_seconds
from cenote.common.values import dataclass
from cenote.execution.probe.report import NOT_THERE, NodeReport, Question
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan
from cenote.planning.probes.result import Finding, ProbeVerdict

SLOW_SECONDS = 30.0
"""For importing the worker, or opening a file."""
_LITTLE_SCRATCH = 10**9
_MARGIN = 0.9
"""Share of the promised memory that is enough: batch systems count in other units, and the system keeps some."""
_OF_WORKFLOW = ("packages", "plugins", "folder", "credentials", "data")
"""Questions whose answers say nothing about other workflows on the same pool."""


@dataclass(frozen=True)
class Expectation:
    """What a node is measured by."""

    question: Question
    pool: PlacedPool
    reads_files: bool
    """Whether tasks of this pool read the data themselves."""
    writes_files: bool
    """Whether tasks write files of the run."""
    has_plugins: bool = False


def expected_of(plan: Plan, pool: PlacedPool, question: Question) -> Expectation:
    """From what the plan lets this pool do."""
    fallbacks = {one.name: one.fallback for one in plan.placement.pools}
    mine = [
        segment
        for segment in plan.segments
        if any(pool.name in (first, *fallbacks.get(first, ())) for first in segment.pools)
    ]
    return Expectation(
        question,
        pool,
        reads_files=any(segment.source is not None for segment in mine),
        writes_files=any(step.writes for segment in mine for step in segment.steps),
        has_plugins=bool(plan.workflow.plugins),
    )


def judge(expected: Expectation, report: NodeReport) -> tuple[Finding, ...]:
    """A finding for every question, in the order in which a worker would meet them."""
    looks = (_network, _python, _packages, _worker, _plugins, _amounts, _gpus, _scratch, _folder, _credentials, _data)
    found = [finding for look in looks for finding in look(expected, report)]
    return tuple(replace(one, of_workflow=one.question in _OF_WORKFLOW) for one in found)


def _python(_: Expectation, report: NodeReport) -> Iterator[Finding]:
    here = platform.python_version()
    if software.differences({"python": here}, {"python": report.python}):
        words = f"{report.python} in {report.executable}, here it is {here}: {software.RULES['python'].why}"
        yield Finding("python", "problem", words, "workers are turned away: give the pool another `environment`")
    else:
        same = "as here" if report.python == here else f"which works with {here} here"
        yield Finding("python", "ok", f"{report.python}, {same}: {report.executable}")


def _packages(_: Expectation, report: NodeReport) -> Iterator[Finding]:
    here = {name: found for name, found in software.installed_versions(report.packages).items() if found}
    found = software.differences(here, report.packages)
    missing = [one for one in found if one.there is None]
    needed = [one.package for one in missing if one.refused or one.package not in software.RULES]
    spared = [one.package for one in missing if one.package not in needed]
    unfit = [one for one in found if one.there is not None and one.refused]
    other = [one for one in found if one.there is not None and not one.refused]
    if needed:
        hint = "install them into the Python that workers use"
        yield Finding("packages", "problem", f"missing there: {listed(needed)}", hint)
    if spared:
        hint = "files of some kinds cannot be read or written there: install them if the workflow has such files"
        yield Finding("packages", "warning", f"missing there: {listed(spared)}", hint)
    if unfit:
        hint = "workers are turned away: install the versions that are here"
        yield Finding("packages", "problem", f"versions that do not fit: {_versions(unfit)}", hint)
    if other:
        hint = "numbers may differ: install the same versions"
        yield Finding("packages", "warning", f"other versions there: {_versions(other)}", hint)
    if not found:
        same = sum(found is not None for found in report.packages.values())
        yield Finding("packages", "ok", f"the {same} that are needed, in the same versions as here")


def _versions(found: Iterable[software.Difference]) -> str:
    return ", ".join(f"{one.package} {one.there} (here {one.here})" for one in found)


def _worker(_: Expectation, report: NodeReport) -> Iterator[Finding]:
    for loaded in report.modules:
        if loaded.problem:
            hint = "the software is incomplete there, or on a hanging file system"
            yield Finding("worker", "problem", f"cannot be imported: {loaded.problem}", hint)
        elif loaded.seconds > SLOW_SECONDS:
            words = f"takes {format_seconds(loaded.seconds)} to import: the software is on a slow file system"
            yield Finding("worker", "warning", words, "workers will join late; put the software on a faster one")
        else:
            yield Finding("worker", "ok", f"its software is imported in {format_seconds(loaded.seconds)}")


def _network(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    question = expected.question
    if question.host is None:
        return
    where = f"the driver at {question.host}:{question.port}"
    if not report.no_connection:
        yield Finding("network", "ok", f"reaches {where}")
        return
    hint = (
        "say in `execution.config` where workers find the driver: `host` or `interface` to listen on, `port` (a "
        "range that firewalls let through), `contact` behind NAT; or start the driver where nodes reach it"
    )
    yield Finding("network", "problem", f"does not reach {where}: {report.no_connection}", hint)


def _amounts(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    asked = expected.pool.granted
    hint = "tasks beyond it are slow or get killed: ask the batch system for what the pool promises"
    cpus = f"{report.cpus} seen, {asked.cpus:g} promised" if asked.cpus else f"{report.cpus} seen"
    enough = not asked.cpus or report.cpus >= asked.cpus
    yield Finding("cpus", "ok", cpus) if enough else Finding("cpus", "warning", cpus, hint=hint)
    if not report.memory:
        yield Finding("memory", "warning", "unknown there")
        return
    memory = f"{format_bytes(report.memory)} seen"
    memory += f", {format_bytes(asked.memory)} promised" if asked.memory else ""
    enough = not asked.memory or report.memory >= _MARGIN * asked.memory
    yield Finding("memory", "ok", memory) if enough else Finding("memory", "warning", memory, hint=hint)


def _gpus(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    pool = expected.pool
    promised = pool.granted.gpus or 0
    seen = len(report.gpus)
    if not promised and pool.resources.gpus:
        yield Finding("gpus", "warning", f"{seen} visible, {pool.resources.gpus} requested: this machine has no more")
    if not promised:
        return
    if seen < promised:
        hint = "`cenote plan --show-jobs` shows the request; the batch system must assign GPUs and name them"
        yield Finding("gpus", "problem", f"{seen} visible, {promised} promised", hint)
    elif not report.gpu_models:
        words = f"handed out: {listed(report.gpus)}, but the node has no NVIDIA driver"
        yield Finding("gpus", "warning", words, hint="CUDA will not work there; choose other nodes")
    else:
        models = listed(dict.fromkeys(report.gpu_models))
        yield Finding("gpus", "ok", f"{seen} visible, {promised} promised: {models}")


def _scratch(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    scratch = report.scratch
    if scratch.problem:
        hint = "name another folder of the nodes as `scratch` in `execution.config`"
        yield Finding("scratch", "problem", f"{scratch.path} cannot be written: {scratch.problem}", hint=hint)
        return
    words = f"{format_bytes(scratch.free)} free in {scratch.path}"
    promised = expected.pool.granted.disk
    if scratch.free >= max(promised or 0, _LITTLE_SCRATCH):
        yield Finding("scratch", "ok", words)
    else:
        words += f", {format_bytes(promised)} promised" if promised else ""
        yield Finding("scratch", "warning", words, hint="data that memory cannot hold goes there: choose another place")


def _folder(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    folder = report.folder
    if not folder.problem:
        yield Finding("folder", "ok", f"{folder.path} can be written")
    elif folder.problem == NOT_THERE:
        hint = "results return over the network instead; so do files that stages write, which takes longer"
        yield Finding("folder", "warning", f"{folder.path} is not there", hint=hint)
    else:
        words = f"{folder.path} cannot be written: {folder.problem}"
        hint = "choose a folder for the run that the nodes may write to"
        verdict: ProbeVerdict = "problem" if expected.writes_files else "warning"
        yield Finding("folder", verdict, words, hint=hint)


def _plugins(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    for loaded in report.plugins:
        if loaded.problem:
            hint = "what it imports must be installed there"
            yield Finding("plugins", "problem", f"{loaded.name}: {loaded.problem}", hint=hint)
    if report.plugins and not any(loaded.problem for loaded in report.plugins):
        names = listed([Path(loaded.name).name for loaded in report.plugins])
        yield Finding("plugins", "ok", f"imported: {names}")
    elif expected.has_plugins and not report.plugins:
        hint = "a short run shows whether they work there"
        yield Finding("plugins", "warning", "not tried: too large to send along", hint=hint)


def _credentials(_: Expectation, report: NodeReport) -> Iterator[Finding]:
    for seen in report.credentials:
        if seen.problem:
            hint = "the driver sends it: look at `network` first"
            yield Finding("credentials", "problem", f"{seen.type} did not arrive: {seen.problem}", hint)
        elif seen.mode & 0o077:
            words = f"{seen.type} is open to other users there (mode {seen.mode:04o})"
            yield Finding(
                "credentials", "problem", words, "clients refuse it: choose a scratch folder with permissions"
            )
        elif seen.seconds_left is not None and seen.seconds_left <= 0:
            words = f"{seen.type} ended {format_seconds(-seen.seconds_left)} ago by the clock of the node"
            yield Finding("credentials", "problem", words, "the clocks of the node and of this machine differ")
        else:
            ends = "" if seen.seconds_left is None else f", ends in {format_seconds(seen.seconds_left // 1)}"
            yield Finding(
                "credentials", "ok", f"{seen.type} arrived, closed to other users (mode {seen.mode:04o}){ends}"
            )
    if report.credentials and not report.authorities:
        hint = "name a folder that nodes have: `certificates:` beside the credential's `type`"
        yield Finding("credentials", "warning", "the node has no folder of certificate authorities", hint)


def _data(expected: Expectation, report: NodeReport) -> Iterator[Finding]:
    bad = [file for file in report.files if file.problem]
    for file in bad:
        problem = file.problem if file.url in file.problem else f"{file.url}: {file.problem}"
        words = f"dataset '{file.dataset}': {problem}"
        if expected.reads_files:
            hint = "the nodes must see the data under the same name, or read it by root:// or https://"
            yield Finding("data", "problem", words, hint)
        else:
            yield Finding("data", "warning", words, "no stage of this pool reads files, so it can do without")
    good = [file for file in report.files if not file.problem]
    if not good:
        return
    slowest = max(good, key=lambda file: file.seconds)
    words = f"{len(good)} of {len(report.files)} files opened, " if bad or len(good) > 1 else "opened "
    words += "the slowest " if len(good) > 1 else ""
    words += f"in {format_seconds(slowest.seconds)}: {Path(slowest.url).name}"
    slow = slowest.seconds > SLOW_SECONDS
    hint = "tasks will wait for the data: is there a copy nearer to the nodes?" if slow else ""
    yield Finding("data", "warning" if slow else "ok", words, hint=hint)
