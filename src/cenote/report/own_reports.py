"""Write the reports that a workflow asks for: templates, filled with what is known of a run."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cenote.common import errors, storage
from cenote.common.errors import CenoteError, words_of
from cenote.execution.runs.folder import RunFolder
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.language.workflow import Report
from cenote.planning.outputs.names import report_path
from cenote.report.records import RunRecords, read_all
from cenote.report.render import TEMPLATES, render, with_words

if TYPE_CHECKING:
    from jinja2 import Template

BUILT_IN = TEMPLATES / "provenance.md.j2"
REPORT_FILES = "reports:files"
"""Under this name it is noted which files reports left."""


def write_reports(run: RunFolder, reports: Sequence[Report]) -> list[Path]:
    """All of them, in the folder of the run. Raises `render-failed` where a template cannot be filled."""
    values = known_of(run, read_all(run))
    written = WrittenFiles(run.store)
    found: list[Path] = []
    for report in reports:
        text = _filled(report, values)
        for output in report.outputs:
            target = run.reports / report_path(output.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            written.note(REPORT_FILES, target)
            found.append(storage.write_text(target, text if output.format == "markdown" else as_html(text)))
    return found


def known_of(run: RunFolder, records: RunRecords) -> dict[str, Any]:
    """What templates may name: the records whole, and parts of them under the names that FAST-HEP's templates use."""
    plan, summary, provenance = (msgspec.to_builtins(record) for record in records)
    stages = [_stage(one, plan) for one in summary["stages"]]
    executions = [_execution(stage) for stage in stages]
    files = {"graph": run.picture.name, "plan": run.plan.name}
    return {
        "plan": plan,
        "summary": summary,
        "provenance": provenance,
        "source": "provenance",
        "run": {
            "id": summary.get("run"),
            "workflow": provenance["workflow"] | files,
            "summary": summary | {"summary_path": run.summary.name},
            "datasets": [dataset["name"] for dataset in plan["datasets"]],
            "command": shlex.join(provenance["command"]) if provenance.get("command") else "",
            "repository": _repository(provenance.get("git")),
        },
        "inputs": provenance["inputs"],
        "resources": [],
        "executed_stages": stages,
        "executions": executions,
        "operations": [operation for one in executions for operation in one["operations"]],
        "artifacts": [_artifact(path, product) for product in summary["products"] for path in _files_of(product)],
        "environment": {
            "backend": plan["backend"],
            "platform": provenance["platform"],
            **{f"pool {pool}": one.get("type", "") for pool, one in provenance["environments"].items()},
        },
        "software_versions": {
            "cenote": provenance["cenote"],
            "python": provenance["python"],
            **provenance["software"],
        },
        "warnings": [
            {"level": "warning", "code": "", "message": words}
            for words in dict.fromkeys((*plan["warnings"], *summary["warnings"]))
        ],
    }


def _stage(ran: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    planned: Mapping[str, Any] = next((stage for stage in plan["stages"] if stage["id"] == ran["id"]), {})
    products = [one for one in plan["products"] if one["stage"] == ran["id"]]
    return {
        **ran,
        "node_id": f"stage.{ran['id']}",
        "reads": planned.get("reads", []),
        "adds": planned.get("adds", []),
        "datasets": [dataset["name"] for dataset in plan["datasets"]],
        "partitions": [],
        "outputs": [{"port": one["name"], "type": one["kind"]} for one in products],
    }


def _execution(stage: Mapping[str, Any]) -> dict[str, Any]:
    known = {
        "node_id": stage["node_id"],
        "impl": stage["op"],
        "role": "stage",
        "dataset": None,
        "partition": None,
    }
    operation = {
        **known,
        "execution_id": stage["node_id"],
        "inputs": {"symbols": stage["reads"], "resources": []},
        "outputs": {"symbols": stage["adds"]},
    }
    return {**known, "id": stage["node_id"], "operations": [operation]}


def _files_of(product: Mapping[str, Any]) -> list[str]:
    return [*product["files"], *product["plots"]]


def _artifact(path: str, product: Mapping[str, Any]) -> dict[str, str]:
    stage = product["stage"]
    return {"path": path, "kind": product["kind"], "stage": stage, "node_id": f"stage.{stage}", "record": ""}


def _repository(git: Mapping[str, Any] | None) -> str:
    if not git:
        return ""
    return f"{git['commit']}{', with changes that are not committed' if git['changed'] else ''}"


def as_html(markdown: str) -> str:
    """A page of its own. Tags in the text are shown, not obeyed."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    title = next((line.removeprefix("# ") for line in markdown.splitlines() if line.startswith("# ")), "Report")
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return render("report.html.j2", title=title, body=Markup(body))  # markdown-it escapes what it is given


def _filled(report: Report, values: Mapping[str, Any]) -> str:
    file = report.template or BUILT_IN
    try:
        return _template(file).render(values).rstrip() + "\n"
    except (CenoteError, MemoryError):
        raise
    except Exception as problem:  # a template may raise anything
        lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(file)]
        where = f"{file.name}:{lines[-1]}" if lines else file.name
        words = f"report '{report.id}' cannot be written: {where}: {words_of(problem)}"
        names = [name for name in values if not name.startswith("_")]
        raise errors.error(
            errors.RENDER_FAILED, words, details=(f"a template may name: {', '.join(names)}",)
        ) from problem


@cache
def _template(file: Path) -> Template:
    """In an environment that keeps it from doing anything but text; `{% include %}` finds what is beside it."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    found = SandboxedEnvironment(loader=FileSystemLoader(file.parent), autoescape=False, undefined=StrictUndefined)
    return with_words(found).get_template(file.name)
