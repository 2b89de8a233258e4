"""Check reports: texts about a run, from templates."""

from __future__ import annotations

from pathlib import Path

from cenote import errors, storage
from cenote.language.checks.execution import one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.schema.document import ReportModel, ReportOutputModel
from cenote.language.workflow import Report, ReportOutput
from cenote.language.yaml.source import Located

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
