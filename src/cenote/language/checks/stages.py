"""Check the stages: their keys, operations and params, what they follow, and where they may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import nearest
from cenote.common.values import dataclass
from cenote.language.checks.attachments import Attachments
from cenote.language.checks.execution import check_modifiers, check_pool_name, one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.joins import ZIP_JOIN, joined_by, with_mapping_files
from cenote.language.checks.plugins import check_settings, explained_by_plugins, known_names
from cenote.language.checks.validation import described, validated
from cenote.language.execution import Amounts
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.stage import StageModel
from cenote.language.systematics import KeyPath
from cenote.language.workflow import AppliesTo, Requirement, Stage
from cenote.language.yaml.source import Located


@dataclass(frozen=True)
class Surroundings:
    """What stages may refer to."""

    folder: Path
    """The workflow's."""
    datasets: frozenset[str]
    streams: frozenset[str]
    """Sources and joins."""
    primary_stream: str | None
    pools: frozenset[str]
    labels: frozenset[str]
    """Everything that a pool provides, their names included."""


@dataclass(frozen=True)
class _Draft:
    """A stage as written, with its keys checked."""

    id: str
    what: str
    """How messages call it."""
    node: Located
    model: StageModel
    path: KeyPath


def check_stages(
    node: Located | None, around: Surroundings, attachments: Attachments, findings: Findings
) -> tuple[Stage, ...]:
    """The stages, each checked for itself so that a broken one does not hide the others."""
    if node is None or node.value is None:
        return ()
    if not isinstance(node.value, list):
        findings.report(errors.BAD_VALUE, f"'analysis.stages' should be a list, not {described(node)}", node)
        return ()
    written = [with_mapping_files(stage, around.folder, findings) for stage in node.value]
    return _Checker(written, around, attachments, findings).stages()


@dataclass
class _Checker:
    """Checks the stages of one document."""

    written: list[Located]
    around: Surroundings
    attachments: Attachments
    findings: Findings
    ids: dict[str, Located] = field(default_factory=dict)
    """Every id, broken stages included: a need of theirs is not an unknown one."""
    drawn: dict[str, str] = field(default_factory=dict)
    """Stages that only draw, and the stage whose product they draw."""

    def stages(self) -> tuple[Stage, ...]:
        self.operations = known_names(PluginKind.OPERATION)
        self.renderers = known_names(PluginKind.RENDERER)
        self.unknown: dict[str, Problem] = {}
        for node in self.written:
            self._note_id(node)
        drafts = [self._draft(index, node) for index, node in enumerate(self.written)]
        stages: list[Stage] = []
        previous: str | None = None
        for node, draft in zip(self.written, drafts, strict=True):
            if draft is None:  # what follows a broken stage follows it, not the one before it
                named = node.get("id")
                previous = named.text if named is not None and named.text else previous
            elif (stage := self._stage(draft, previous=previous)) is not None:
                stages.append(stage)
                previous = stage.id
        self._check_circle(stages)
        for name in self.attachments.elsewhere:
            self._check_stage_name(name)
        return tuple(self._finished(stage) for stage in stages)

    def _note_id(self, node: Located) -> None:
        named = node.get("id")
        if named is None or named.value is None:
            return
        name = str(named.value)
        if name in self.ids:
            first = self.ids[name].place
            details = (f"first at {first}",) if first else ()
            self.findings.report(errors.DUPLICATE_ID, f"two stages are named '{name}'", named, details=details)
        self.ids.setdefault(name, named)

    def _draft(self, index: int, node: Located) -> _Draft | None:
        named = node.get("id")
        what = f"stage '{named.value}'" if named is not None and named.value else f"stage number {index + 1}"
        model = validated(StageModel, node, what, self.findings)
        self._check_operation(node, what)
        self._check_references(node, what)
        if model is None or self.ids[model.id] is not named:
            return None
        return _Draft(model.id, what, node, model, ("analysis", "stages", index))

    def _check_operation(self, node: Located, what: str) -> None:
        op, params = node.get("op"), node.get("params")
        if op is None or op.text is None or op.text in self.renderers:
            return
        if op.text not in self.operations:
            self._report_unknown_operation(op, op.text)
        elif params is None or params.value is None:
            check_settings(PluginKind.OPERATION, op.text, node.holding({}), f"the params of {what}", self.findings)
        elif isinstance(params.value, dict):
            check_settings(PluginKind.OPERATION, op.text, params, f"the params of {what}", self.findings)

    def _report_unknown_operation(self, op: Located, name: str) -> None:
        """A plugin that failed to load explains operations that are not there, unless one is a slip of the pen."""
        if name not in self.unknown:
            meant = nearest(name, self.operations | self.renderers)
            kind = PluginKind.RENDERER if meant in self.renderers else PluginKind.OPERATION
            self.unknown[name] = registry.unknown(kind, name)
        if not explained_by_plugins(name, self.operations, self.findings):
            self.findings.add([self.unknown[name]], op)

    def _stage(self, draft: _Draft, previous: str | None) -> Stage | None:
        needs, source = self._inputs(draft, previous)
        model = draft.model
        applies = (model.applies_to.eventtype, model.applies_to.datasets) if model.applies_to else None
        self.attachments.take(draft.id, model, draft.node, draft.path)
        if model.op in self.renderers:
            self._draw(draft, needs)
            return None
        return Stage(
            id=draft.id,
            op=model.op,
            params=model.params or {},
            needs=needs,
            source=source if source is not None or needs else self.around.primary_stream,
            applies_to=AppliesTo(*applies) if applies else AppliesTo(),
            scope=model.scope,
            depends_on=model.depends_on or (),
            requirement=self._requirement(draft),
            path=draft.path,
        )

    def _check_references(self, node: Located, what: str) -> None:
        """Note names of stages, datasets and pools that are not there; also for a stage with other faults."""
        for written in one_or_many(node.get("from") or node.get("in")):
            name = written.get("node") or written
            if name.text not in self.around.streams:
                self._check_stage_name(name, also=self.around.streams)
        for written in one_or_many(node.get("needs")):
            self._check_stage_name(written)
        for written in one_or_many(node.get("applies_to", "datasets")):
            if written.text is not None and written.text not in self.around.datasets:
                words = f"there is no dataset '{written.text}'"
                known = self.around.datasets
                self.findings.report_unknown(errors.UNKNOWN_STAGE, words, written, known, what="datasets")
        for keys in (("pool",), ("resources", "resource_pool")):
            check_pool_name(node.get("execution", *keys), self.around.pools, f"'pool' of {what}", self.findings)
        for key in ("prefer", "fallback"):
            for written in one_or_many(node.get("execution", key)):
                named_as = f"'{key}' of {what}"
                check_pool_name(written, self.around.labels, named_as, self.findings, listed_as="pools and labels")

    def _inputs(self, draft: _Draft, previous: str | None) -> tuple[tuple[str, ...], str | None]:
        """The stages whose events come in, and the source it names."""
        model = draft.model
        if model.from_ is None and model.needs is None:
            return ((previous,) if previous is not None else ()), None
        inputs = [one.node for one in model.from_ or ()]
        sources = [name for name in inputs if name in self.around.streams and name not in self.ids]
        stages = [name for name in (*inputs, *(model.needs or ())) if name in self.ids]
        needs = tuple(dict.fromkeys(self.drawn.get(name, name) for name in stages))
        if model.op == ZIP_JOIN and len(sources) > 1:
            return needs, joined_by(draft.id)
        return needs, sources[0] if sources else None

    def _check_stage_name(self, name: Located, also: frozenset[str] = frozenset()) -> None:
        if name.text is None or name.text in self.ids:
            return
        known = chain(self.ids, also)
        what = "stages, sources and joins" if also else "stages"
        self.findings.report_unknown(errors.UNKNOWN_STAGE, f"there is no stage '{name.text}'", name, known, what=what)

    def _draw(self, draft: _Draft, needs: Sequence[str]) -> None:
        """A stage that only draws hangs on the stage whose product it draws, or on the last one of several."""
        others = [one.node for one in draft.model.from_ or () if one.node not in self.ids]
        if not {*others} <= self.around.streams:
            return  # a name that is not there is said already
        if others or not needs:
            words = f"{draft.what} draws nothing: {draft.model.op} needs products of stages"
            words += f", and '{others[0]}' is a source" if others else ""
            self.findings.report(errors.MISSING_KEY, words, draft.node, hint="name stages that make some with `from`")
            return
        together = self._drawn_together(draft, needs) if len(needs) > 1 else {}
        target = max(together.values() or needs, key=list(self.ids).index)
        for name, entry in self._pictures(draft):
            self.attachments.draw(target, entry, draft.path, by=name, when=draft.model.when, together=together)
        self.drawn[draft.id] = target

    def _drawn_together(self, draft: _Draft, needs: Sequence[str]) -> dict[str, str]:
        """What each product is called, and the stage that makes it."""
        inputs = [(one.as_ or one.node, one.node) for one in draft.model.from_ or () if one.node in self.ids]
        together: dict[str, str] = {}
        for name, stage in inputs if len(inputs) > 1 else [(need, need) for need in needs]:
            if name in together:
                words = f"{draft.what} has two inputs called '{name}'"
                hint = "give each a name of its own with `as`"
                self.findings.report(errors.DUPLICATE_ID, words, draft.node.get("from"), hint=hint)
            together[name] = self.drawn.get(stage, stage)
        return together

    def _pictures(self, draft: _Draft) -> Iterator[tuple[str, Located]]:
        """The name of each picture and what it says to its renderer: one, or one for each of the `variations`."""
        params, out = draft.node.get("params"), draft.node.get("out")
        content = {
            **(params.mapping if params else {}),
            "op": draft.node.mapping["op"],
            **({"out": out} if out else {}),
        }
        variations = draft.model.variations
        if variations is None:
            yield draft.id, draft.node.holding(content)
            return
        for value in variations.values:
            block = content.get("comparison", draft.node.holding({}))
            said = {"variation": value, "variation_axis": variations.axis, "variation_reference": variations.reference}
            own = {**block.mapping, **{key: block.holding(text) for key, text in said.items()}}
            named = {"out": out.holding(out.text.replace("{variation}", value))} if out and out.text else {}
            picture = {**content, **named, "comparison": block.holding(own)}
            yield f"{draft.id}_{value}", draft.node.holding(picture)

    def _requirement(self, draft: _Draft) -> Requirement:
        model, node = draft.model.execution, draft.node.get("execution")
        path = (*draft.path, "execution")
        if model is None or node is None:
            return Requirement(path=path)
        return Requirement(
            labels=model.require,
            prefer=model.prefer,
            fallback=model.fallback,
            pool=model.chosen_pool,
            amounts=Amounts() if model.resources is None else model.resources.over(Amounts()),
            timeout=model.timeout,
            retries=model.retries,
            modifiers=check_modifiers(node.get("modifiers"), model.modifiers, (*path, "modifiers"), self.findings),
            path=path,
        )

    def _check_circle(self, stages: list[Stage]) -> None:
        try:
            TopologicalSorter({stage.id: stage.needs for stage in stages}).prepare()
        except CycleError as problem:
            circle: list[str] = problem.args[1][:0:-1]  # each needs the next, and the last one the first
            first = min(circle, key=list(self.ids).index)
            start = circle.index(first)
            words = " → ".join([*circle[start:], *circle[:start], first])
            self.findings.report(errors.CYCLE, f"stages need each other in a circle: {words}", self.ids[first])

    def _finished(self, stage: Stage) -> Stage:
        """The stage with everything that hangs on it, wherever in the file it was written."""
        return replace(
            stage,
            write=tuple(self.attachments.writes.get(stage.id, ())),
            render=tuple(self.attachments.renders.get(stage.id, ())),
        )
