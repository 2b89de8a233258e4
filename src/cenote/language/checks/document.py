"""Check a merged document, with its reports and observers, all at once, and freeze it into a Workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.text import nearest
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
from cenote.language.checks.execution import check_execution, one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.joins import check_joins, read_by_stages
from cenote.language.checks.plugins import load_plugins, registered_constants
from cenote.language.checks.stages import Surroundings, check_stages
from cenote.language.checks.systematics import check_systematics
from cenote.language.checks.validation import described, keys_of, validated
from cenote.language.schema.document import (
    AnalysisModel,
    HookModel,
    ObserverModel,
    OutputModel,
    ReportModel,
    ReportOutputModel,
    SiteModel,
    UseModel,
    WorkflowModel,
)
from cenote.language.schema.stage import InspectModel
from cenote.language.styles import Styles
from cenote.language.systematics import KeyPath, Origin
from cenote.language.workflow import Execution, Observer, Report, ReportOutput, Workflow
from cenote.language.yaml.source import Located

# Check reports: texts about a run, from templates.


BUILT_IN = "hep.provenance.default"


def check_reports(root: Located, folder: Path, findings: Findings) -> tuple[Report, ...]:
    """The reports at the top of the file."""
    found: list[Report] = []
    for index, entry in enumerate(one_or_many(root.get("reports"))):
        model = validated(ReportModel, entry, "a report", findings)
        if model is None:
            continue
        if any(other.id == model.id for other in found):
            findings.report(errors.DUPLICATE_ID, f"there are two reports '{model.id}'", entry.get("id"))
        template = _template(entry.get("template"), root, folder, findings)
        outputs = tuple(map(_output, model.outputs))
        found.append(Report(model.id, template, outputs, ("reports", index)))
    return tuple(found)


def _output(written: ReportOutputModel) -> ReportOutput:
    named_so = written.path.lower().endswith((".html", ".htm"))
    is_html = named_so if written.format is None else written.format == "html"
    return ReportOutput(written.path, "html" if is_html else "markdown")


def _template(node: Located | None, root: Located, folder: Path, findings: Findings) -> Path | None:
    """The file with the template: one of the registry, or one beside the workflow."""
    if node is None or node.text in (None, BUILT_IN):
        return None
    registered = root.get("registry", "report_templates", node.text or "")
    named = (registered.get("path") if registered is not None else None) or node
    written = storage.expanded(named.text or "")
    tried = [beside / written for beside in (folder, Path.cwd())]
    file = next((path for path in tried if storage.is_file(path)), None)
    if file is None:
        known = root.get("registry", "report_templates")
        findings.report(
            errors.MISSING_FILE,
            f"the template {named.text} is not there",
            node,
            details=(f"looked for {tried[0]}",),
            hint=f"built in is {BUILT_IN}" + (f"; registered: {', '.join(known.mapping)}" if known else ""),
        )
        return None
    _check_syntax(file, node, findings)
    return file


def _check_syntax(file: Path, node: Located, findings: Findings) -> None:
    from jinja2 import Environment, TemplateSyntaxError  # only files with reports need it

    try:
        Environment(autoescape=False).parse(file.read_text(encoding="utf-8"))  # nothing is filled
    except TemplateSyntaxError as problem:
        findings.report(errors.BAD_VALUE, f"{file.name}:{problem.lineno}: {problem.message}", node)
    except (OSError, UnicodeDecodeError) as problem:
        findings.report(errors.MISSING_FILE, f"the template {file} cannot be read: {problem}", node)


# Check observers, which describe columns at some places, and hooks, which FAST-HEP calls while it runs.


OBSERVERS = ("hep.branches", "hep.schema_snapshot")
BUILT_IN_HOOKS = frozenset({"hep.dataset_context", "hep.error_report", "hep.resource_usage", "hep.warning_capture"})
"""What these report is always reported."""


def check_hooks(root: Located, findings: Findings) -> None:
    """Note hooks that are not called here."""
    for index, entry in enumerate(one_or_many(root.get("execution_hooks"))):
        model = validated(HookModel, entry, "a hook", findings)
        if model is not None and model.kind not in BUILT_IN_HOOKS:
            findings.accept(f"hook '{model.kind}'", ("execution_hooks", index), matters=False)


def check_observers(root: Located, streams: frozenset[str], findings: Findings) -> tuple[Observer, ...]:
    """The observers at the top of the file, and those of stages under `inspect`."""
    stages = _stages(root)
    found = []
    for index, entry in enumerate(one_or_many(root.get("observers"))):
        model = validated(ObserverModel, entry, "an observer", findings)
        if model is None or not _is_known(entry, ("observers", index), findings):
            continue
        written = one_or_many(entry.get("at"))
        at = [place.text for place in written if place.text and _is_place(place, stages, streams, findings)]
        found.append(Observer(model.kind, tuple(at), model.out))
    return (*found, *_inspections(root, findings))


def _stages(root: Located) -> dict[str, Located]:
    written = root.get("analysis", "stages")
    named = [(stage.get("id"), stage) for stage in one_or_many(written) if isinstance(stage.value, dict)]
    return {name.text: stage for name, stage in named if name is not None and name.text}


def _inspections(root: Located, findings: Findings) -> Iterator[Observer]:
    for number, (stage, node) in enumerate(_stages(root).items()):
        for index, entry in enumerate(one_or_many(node.get("inspect"))):
            path = ("analysis", "stages", number, "inspect", index)
            if isinstance(entry.value, dict) and entry.get("kind") is not None and _is_known(entry, path, findings):
                model = InspectModel.model_validate(entry.plain())
                yield Observer(model.kind, (f"stage.{stage}",), model.out)


def _is_known(entry: Located, path: KeyPath, findings: Findings) -> bool:
    kind = entry.get("kind")
    if kind is None or kind.text in OBSERVERS:
        return kind is not None
    findings.accept(f"observer '{kind.text}'", path, matters=False)
    return False


def _is_place(place: Located, stages: dict[str, Located], streams: frozenset[str], findings: Findings) -> bool:
    """Whether there is such a place; a place that is not there is noted with those that are."""
    skims = {f"{name}.{n}" for name, node in stages.items() for n in range(len(one_or_many(node.get("write"))))}
    known = {
        **{f"{what}.{name}": None for name in streams for what in ("read", "join", "project")},
        **{f"stage.{name}": None for name in stages},
        **{f"write.{name}": None for name in skims},
    }
    if place.text in known:
        return True
    shown = [name for name in known if not name.startswith(("join.", "project."))]
    findings.report_unknown(errors.UNKNOWN_STAGE, f"there is no '{place.text}' to observe", place, shown, what="places")
    return False


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
