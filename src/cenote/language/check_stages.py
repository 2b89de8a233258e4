"""This file checks the stages: their keys, operations and params, what they follow, and where they may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cenote import errors
from cenote.errors import Problem
from cenote.language.attachments import Attachments, inspections
from cenote.language.check_execution import amounts, check_modifiers, check_pool_name, one_or_many
from cenote.language.check_plugins import check_settings, known_names
from cenote.language.findings import Findings
from cenote.language.needs import find_circle
from cenote.language.schema_stage import StageModel
from cenote.language.validation import described, validated
from cenote.language.workflow import AppliesTo, Execution, Path_, Requirement, Stage
from cenote.language.yaml_source import Located
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind


@dataclass(frozen=True)
class Surroundings:
    """What stages may refer to."""

    datasets: frozenset[str]
    streams: frozenset[str]
    """Sources and joins."""
    primary_stream: str | None
    execution: Execution

    @property
    def pools(self) -> frozenset[str]:
        """The names of the pools."""
        return frozenset(pool.name for pool in self.execution.pools)

    @property
    def labels(self) -> frozenset[str]:
        """Everything that a pool provides."""
        return frozenset(label for pool in self.execution.pools for label in pool.labels)


@dataclass(frozen=True)
class _Draft:
    """A stage as written, with its keys checked."""

    id: str
    what: str
    """How messages call it."""
    node: Located
    model: StageModel
    path: Path_


def check_stages(
    node: Located | None, around: Surroundings, attachments: Attachments, findings: Findings
) -> tuple[Stage, ...]:
    """The stages, each checked for itself so that a broken one does not hide the others."""
    if node is None or node.value is None:
        return ()
    if not isinstance(node.value, list):
        findings.report(errors.BAD_VALUE, f"'analysis.stages' should be a list, not {described(node)}", node)
        return ()
    return _Checker(node.value, around, attachments, findings).stages()


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
        drafts = [draft for index, node in enumerate(self.written) if (draft := self._draft(index, node)) is not None]
        stages: list[Stage] = []
        for draft in drafts:
            stage = self._stage(draft, previous=stages[-1].id if stages else None)
            if stage is not None:
                stages.append(stage)
        self._check_circle(stages)
        for name, at in self.attachments.elsewhere:
            self._check_stage_name(name, at)
        return tuple(self._finished(stage) for stage in stages)

    def _note_id(self, node: Located) -> None:
        named = node.get("id")
        if named is None or named.value is None:
            return
        name = str(named.value)
        if name in self.ids:
            first = self.ids[name].place
            details = (f"first at {first}",) if first else ()
            self.findings.report(errors.DUPLICATE_ID, f"two stages are called '{name}'", named, details=details)
        self.ids.setdefault(name, named)

    def _draft(self, index: int, node: Located) -> _Draft | None:
        named = node.get("id")
        what = f"stage '{named.value}'" if named is not None and named.value else f"stage number {index + 1}"
        model = validated(StageModel, node, what, self.findings)
        self._check_operation(node, what)
        if model is None:
            return None
        return _Draft(model.id, what, node, model, ("analysis", "stages", index))

    def _check_operation(self, node: Located, what: str) -> None:
        op, params = node.get("op"), node.get("params")
        if op is None or op.text is None or op.text in self.renderers:
            return
        if op.text not in self.operations:
            if op.text not in self.unknown:
                self.unknown[op.text] = registry.unknown(PluginKind.OPERATION, op.text)
            self.findings.add([self.unknown[op.text]], op)
        elif params is None or params.value is None:
            check_settings(PluginKind.OPERATION, op.text, node.holding({}), f"the params of {what}", self.findings)
        elif isinstance(params.value, dict):
            check_settings(PluginKind.OPERATION, op.text, params, f"the params of {what}", self.findings)

    def _stage(self, draft: _Draft, previous: str | None) -> Stage | None:
        needs, source = self._inputs(draft, previous)
        model = draft.model
        self.attachments.take(draft.id, model, draft.node, draft.path)
        if model.op in self.renderers and len(needs) == 1:
            self._draw(draft, needs[0])
            return None
        return Stage(
            id=draft.id,
            op=model.op,
            params=model.params or {},
            needs=needs,
            source=source if source is not None or needs else self.around.primary_stream,
            applies_to=self._applies_to(draft),
            scope=model.scope,
            requirement=self._requirement(draft),
            inspect=inspections(model, draft.node, draft.path),
            path=draft.path,
        )

    def _inputs(self, draft: _Draft, previous: str | None) -> tuple[tuple[str, ...], str | None]:
        """The stages whose events come in, and the source it names."""
        model, node = draft.model, draft.node
        if model.from_ is None and model.needs is None:
            return ((previous,) if previous is not None else ()), None
        needs: dict[str, None] = {}
        source = None
        for one, written in zip(model.from_ or (), one_or_many(node.get("from") or node.get("in")), strict=False):
            if one.node in self.around.streams and one.node not in self.ids:
                source = source or one.node
            elif self._check_stage_name(one.node, written.get("node") or written, also=self.around.streams):
                needs[self.drawn.get(one.node, one.node)] = None
        for name, written in zip(model.needs or (), one_or_many(node.get("needs")), strict=False):
            if self._check_stage_name(name, written):
                needs[self.drawn.get(name, name)] = None
        return tuple(needs), source

    def _check_stage_name(self, name: str, at: Located, also: frozenset[str] = frozenset()) -> bool:
        if name in self.ids:
            return True
        known = [*self.ids, *also]
        what = "stages, sources and joins" if also else "stages"
        self.findings.report_unknown(
            errors.UNKNOWN_STAGE, f"there is no stage '{name}'", at.holding(name), known, what=what
        )
        return False

    def _draw(self, draft: _Draft, target: str) -> None:
        """A stage that only draws one product hangs on the stage that makes it."""
        params, op = draft.node.get("params"), draft.node.mapping["op"]
        out = draft.node.get("out")
        content = {**(params.mapping if params else {}), "op": op, **({"out": out} if out else {})}
        if draft.model.variations:
            self.findings.accept("pictures per variation", (*draft.path, "variations"))
        entry = draft.node.holding(dict(content))
        self.attachments.draw(target, self.attachments.styles.of_render(entry), entry, draft.path, out=draft.id)
        self.drawn[draft.id] = target

    def _applies_to(self, draft: _Draft) -> AppliesTo:
        model = draft.model.applies_to
        if model is None:
            return AppliesTo()
        for written in one_or_many(draft.node.get("applies_to", "datasets")):
            if written.text not in self.around.datasets:
                self.findings.report_unknown(
                    errors.UNKNOWN_STAGE,
                    f"there is no dataset '{written.value}'",
                    written,
                    self.around.datasets,
                    what="datasets",
                )
        return AppliesTo(model.eventtype, model.datasets)

    def _requirement(self, draft: _Draft) -> Requirement:
        model, node = draft.model.execution, draft.node.get("execution")
        path = (*draft.path, "execution")
        if model is None or node is None:
            return Requirement(path=path)
        of = f"of {draft.what}"
        check_pool_name(node.get("pool"), self.around.pools, f"'pool' {of}", self.findings)
        for key in ("prefer", "fallback"):
            for written in one_or_many(node.get(key)):
                check_pool_name(
                    written, self.around.labels, f"'{key}' {of}", self.findings, listed_as="pools and labels"
                )
        return Requirement(
            labels=model.require,
            prefer=model.prefer,
            fallback=model.fallback,
            pool=model.pool,
            amounts=amounts(model.resources),
            timeout=model.timeout,
            retries=model.retries,
            modifiers=check_modifiers(node.get("modifiers"), model.modifiers, (*path, "modifiers"), self.findings),
            path=path,
        )

    def _check_circle(self, stages: list[Stage]) -> None:
        needs: Mapping[str, tuple[str, ...]] = {stage.id: stage.needs for stage in stages}
        circle = find_circle(needs)
        if circle is not None:
            at = self.ids[circle[0]]
            self.findings.report(errors.CYCLE, f"stages need each other in a circle: {' → '.join(circle)}", at)

    def _finished(self, stage: Stage) -> Stage:
        """The stage with everything that hangs on it, wherever in the file it was written."""
        return replace(
            stage,
            write=tuple(self.attachments.writes.get(stage.id, ())),
            render=tuple(self.attachments.renders.get(stage.id, ())),
        )
