"""Check a merged document, all of it at once, and freeze it into a Workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cenote import errors
from cenote.language.checks.attachments import Attachments
from cenote.language.checks.data import (
    check_datasets,
    check_fields,
    check_primary_stream,
    check_sources,
    dataset_names,
    entries,
    generated_datasets,
)
from cenote.language.checks.execution import check_execution
from cenote.language.checks.findings import Findings
from cenote.language.checks.joins import check_joins, read_by_stages
from cenote.language.checks.observers import check_hooks, check_observers
from cenote.language.checks.plugins import load_plugins, registered_constants
from cenote.language.checks.reports import check_reports
from cenote.language.checks.stages import Surroundings, check_stages
from cenote.language.checks.systematics import check_systematics
from cenote.language.checks.validation import described, keys_of, validated
from cenote.language.origins import KeyPath, Origin
from cenote.language.schema.document import (
    AnalysisModel,
    OutputModel,
    SiteModel,
    UseModel,
    WorkflowModel,
)
from cenote.language.styles import Styles
from cenote.language.workflow import Execution, Workflow
from cenote.language.yaml.source import Located
from cenote.names import nearest


def check_document(root: Located, file: Path, findings: Findings) -> Workflow:
    """The workflow that a document describes. What is wrong is noted in `findings` and left out."""
    misspelt = _check_top_level(root, findings)
    plugins = load_plugins(root, file.parent, findings)
    sources = check_sources(root, findings)
    source_ids = _written(root, "sources") | {source.id for source in sources}
    joins = check_joins(root, sources, findings)
    streams = source_ids | _written(root, "joins")
    datasets = check_datasets(root, file.parent, findings) or generated_datasets(sources)
    execution = check_execution(root, findings)
    pools = _written(root, "execution", "pools") | {pool.name for pool in execution.pools}
    around = Surroundings(
        folder=file.parent,
        datasets=dataset_names(root) | {dataset.name for dataset in datasets},
        streams=streams,
        primary_stream=check_primary_stream(root, streams, findings),
        pools=pools,
        labels=pools.union(*(pool.labels for pool in execution.pools)),
    )
    check_hooks(root, findings)
    attachments = Attachments(Styles(root.get("styles"), findings), root.get("outputs"), findings)
    analysis = _check_analysis(root, misspelt, findings)
    stages = check_stages(analysis.get("stages") if analysis else None, around, attachments, findings)
    observers = check_observers(root, streams, findings)
    return Workflow(
        file=file,
        folder=file.parent,
        version=_version(root, findings),
        datasets=datasets,
        sources=read_by_stages(
            sources, joins, stages, {place.removeprefix("read.") for o in observers for place in o.at}
        ),
        fields=check_fields(root, streams, findings),
        constants={**registered_constants(root.get("registry"), findings), **_constants(analysis, findings)},
        stages=stages,
        observers=observers,
        reports=check_reports(root, file.parent, findings),
        systematics=check_systematics(root, file.parent, around.datasets, findings),
        execution=execution,
        plugins=plugins,
        unexecuted=tuple(findings.unexecuted),
        origins=dict(_origins(root, ())),
    )


def check_surroundings(root: Located, folder: Path, findings: Findings) -> Execution:
    """Where and how workflows run that a document without an analysis is merged under."""
    _check_top_level(root, findings)
    _version(root, findings)
    load_plugins(root, folder, findings)
    return check_execution(root, findings)


def _written(root: Located, *keys: str) -> frozenset[str]:
    """The names under these keys, of broken entries too: a reference to one of them is not at fault."""
    node = root.get(*keys)
    return frozenset(node.mapping if node else ())


def _check_top_level(root: Located, findings: Findings) -> set[str]:
    """Note unknown keys and parts with a simple shape; gives the keys that misspelt ones probably meant."""
    within = dict.fromkeys(keys_of(AnalysisModel), "analysis")
    misspelt = _check_keys(root, keys_of(WorkflowModel), "a workflow", findings, belong=within)
    for key, model in (("use", UseModel), ("site", SiteModel)):
        node = root.get(key)
        if node is not None and node.value is not None:
            validated(model, node, f"'{key}'", findings)
    for name, output in entries(root.get("outputs"), "'outputs'", findings):
        validated(OutputModel, output, f"output '{name}'", findings)
    for name, style in entries(root.get("styles"), "'styles'", findings):
        list(entries(style, f"style '{name}'", findings))
    for name, kind in entries(root.get("registry"), "'registry'", findings):
        list(entries(kind, f"'registry.{name}'", findings))
    return misspelt


def _check_analysis(root: Located, misspelt: set[str], findings: Findings) -> Located | None:
    node = root.get("analysis")
    if node is None:
        if "analysis" not in misspelt and not _names_data(root):
            findings.missing("analysis", "the workflow", root)
        return None
    if node.value is not None and not isinstance(node.value, dict):
        findings.report(errors.BAD_VALUE, f"'analysis' should be a mapping, not {described(node)}", node)
        return None
    meant = _check_keys(node, keys_of(AnalysisModel), "'analysis'", findings)
    stages = node.get("stages")
    if (stages is None or stages.value is None) and "stages" not in {*meant, *root.mapping}:
        findings.missing("stages", "'analysis'", node)
    return node


def _names_data(root: Located) -> bool:
    """Whether there is data to look at: such a file needs no analysis."""
    named = [root.get("datasets"), root.get("data", "datasets"), root.get("data", "catalogue")]
    return any(node is not None and bool(node.value) for node in named)


def _check_keys(
    node: Located, known: list[str], what: str, findings: Findings, belong: Mapping[str, str] | None = None
) -> set[str]:
    """Note unknown keys; gives the keys that they probably meant, so that those are not called missing as well.

    `belong`: keys that stand under another one → under which.
    """
    meant = set()
    for key, child in node.mapping.items():
        if key not in known:
            findings.report_unknown_key(key, child, what, known, belongs=(belong or {}).get(key))
            meant.add(nearest(key, known) or "")
    return meant


def _constants(analysis: Located | None, findings: Findings) -> dict[str, object]:
    node = analysis.get("globals") if analysis else None
    return {name: child.plain() for name, child in entries(node, "'analysis.globals'", findings)}


def _version(root: Located, findings: Findings) -> str:
    node = root.get("version")
    if node is None or node.value is None:
        return "1.0"
    if isinstance(node.value, dict | list | bool):
        findings.report(errors.BAD_VALUE, f"'version' should be a number or text, not {described(node)}", node)
        return "1.0"
    return str(node.value)


def _origins(node: Located, path: KeyPath) -> Iterator[tuple[KeyPath, Origin]]:
    """Where every value of the document came from."""
    yield path, Origin(node.layer, node.place)
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _origins(child, (*path, key))
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _origins(child, (*path, index))
