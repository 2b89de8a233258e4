"""Show what would run, where, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from cenote.cli.options import JSON_OPTION, OUTPUT_OPTION, Choices, deliver, part_options, workflow_choices
from cenote.common.errors import USAGE, error

if TYPE_CHECKING:  # what `cenote plan --help` must not pay for
    from cenote.planning.plan import Plan


ENDINGS = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}
"""How the name of a picture ends → its form."""


class Graph(NamedTuple):
    """A form of picture, and the file for it where one is named."""

    form: str
    file: Path | None = None


class GraphType(click.ParamType):  # type: ignore[type-arg]  # older versions of click have no argument here
    """`dot`, or `plan.dot`."""

    name = "form|file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Graph:
        """The form itself, or the one that the file's ending tells."""
        if isinstance(value, Graph):
            return value
        if value in ENDINGS.values():
            return Graph(value)
        form = ENDINGS.get(Path(value).suffix.lower())
        if value == "png" or str(value).lower().endswith(".png"):
            how = "draw an svg and convert it: `--graph plan.svg`, then `rsvg-convert plan.svg -o plan.png`"
            self.fail(f"plans are not drawn as png: {how}", param, ctx)
        if form is None:
            forms, endings = ", ".join(dict.fromkeys(ENDINGS.values())), ", ".join(ENDINGS)
            self.fail(f"'{value}' is neither a form ({forms}) nor a file that ends with one of {endings}", param, ctx)
        return Graph(form, Path(value))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's signature
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """The forms, then files."""
        forms = [CompletionItem(form) for form in dict.fromkeys(ENDINGS.values()) if form.startswith(incomplete)]
        return forms or [CompletionItem(incomplete, type="file")]


@click.command("plan")
@workflow_choices
@part_options
@JSON_OPTION
@click.option(
    "--graph",
    type=GraphType(),
    help="Draw the stages and their pools instead: dot, mermaid or svg, or a file with such an ending.",
)
@OUTPUT_OPTION
@click.option("--show-jobs", is_flag=True, help="Print the jobs that would be submitted for each pool instead.")
@click.option("--strict", is_flag=True, help="Treat missing hardware as an error instead of a warning.")
def command(
    choices: Choices,
    *,
    until: tuple[str, ...],
    only: tuple[str, ...],
    as_json: bool,
    graph: Graph | None,
    output: Path | None,
    show_jobs: bool,
    strict: bool,
) -> None:
    """Show what would run, where, and why; nothing is run.

    It lists stages with their pools and the reason, segments and tasks, pools and the origin of each setting, data,
    products and warnings.
    """
    from cenote.cli.console import messages
    from cenote.cli.streams import user_code_aside
    from cenote.cli.views.progress.live import progress_on

    if graph is not None and graph.file is not None and output is not None:
        raise error(USAGE, f"--graph {graph.file} and --output {output} both name a file: choose one")
    target = output if graph is None or graph.file is None else graph.file
    if sum((as_json, graph is not None, show_jobs)) > 1:
        raise error(USAGE, "--json, --graph and --show-jobs exclude each other: choose one")
    analysis = choices.load()
    with user_code_aside(), progress_on(messages(), title=choices.name.name) as progress:
        plan = analysis.plan(until=until, only=only, strict=strict, progress=progress.planning)
    if choices.verbose:
        from cenote.cli.views.verbose import dataset_lines

        choices.tell(dataset_lines(plan, level=choices.verbose))
    if graph is not None:
        from cenote.planning.picture import draw as picture

        forms = {"dot": picture.dot, "mermaid": picture.mermaid, "svg": picture.svg}
        deliver(forms[graph.form](plan), target)
    elif show_jobs:
        deliver(_jobs(plan), output)
    elif as_json:
        from cenote.planning.record import PlanRecord, json_text

        deliver(f"{json_text(PlanRecord.of(plan))}\n", output)
    else:
        _table(plan, output)


def _table(plan: Plan, output: Path | None) -> None:
    from cenote.cli.console import output as answers
    from cenote.cli.console import to_file
    from cenote.cli.views.problems import show_warnings
    from cenote.cli.views.tables.plan import show_plan

    if output is None:
        show_plan(plan, answers())
    else:
        with output.open("w", encoding="utf-8") as file:
            show_plan(plan, to_file(file))
    show_warnings(plan.warnings)


def _jobs(plan: Plan) -> str:
    from cenote.common.text import plural
    from cenote.execution.runtime.job_texts import job_texts

    pools = job_texts(plan, Path("out") / plan.workflow.file.stem)
    if not pools:
        return f"# backend '{plan.workflow.execution.backend}' runs everything on this machine and submits no jobs\n"
    blocks = []
    for jobs in pools:
        blocks.append(f"# pool '{jobs.pool}': {plural(jobs.workers, 'worker')} from {jobs.strategy}\n")
        blocks += [text if text.endswith("\n") else f"{text}\n" for text in jobs.texts]
    return "\n".join(blocks)
