"""Check what hangs on a stage: skims to write, pictures to draw, columns to look at."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.language.checks.execution import one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_name, check_settings, plain_mapping
from cenote.language.layers.profiles import merge
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.stage import StageModel, WriteModel
from cenote.language.styles import Styles
from cenote.language.systematics import KeyPath
from cenote.language.workflow import Render, Write
from cenote.language.yaml.source import Located

NOT_THE_RENDERERS = ("op", "out", "when", "from", "use", "with")
"""Keys of a resolved picture that are not settings of its renderer."""
NOT_THE_SINKS = ("kind", "path", "keep", "use", "when", "from", "mode")
AT_THE_END = ("final", "run_end")
NOTHING: Mapping[str, str] = MappingProxyType({})
PER_PARTITION = ("partition", "partition_end")
PER_DATASET = ("dataset", "dataset_end")
PLACEHOLDERS = ("dataset", "part", "partition_id")
"""What stands in braces in the path of a skim."""


@dataclass
class Attachments:
    """Everything that hangs on stages, by the stage whose events or product it takes."""

    styles: Styles
    outputs: Located | None
    findings: Findings
    writes: dict[str, list[Write]] = field(default_factory=dict)
    renders: dict[str, list[Render]] = field(default_factory=dict)
    elsewhere: list[Located] = field(default_factory=list)
    """Names of stages that a `from` in here refers to."""

    def take(self, stage: str, model: StageModel, node: Located, path: KeyPath) -> None:
        """Check and keep what a stage writes and draws."""
        for index, (write, entry) in enumerate(zip(model.write or (), one_or_many(node.get("write")), strict=False)):
            self._write(self._target(stage, write.from_, entry), write, entry, (*path, "write", index))
        for index, (render, entry) in enumerate(zip(model.render or (), one_or_many(node.get("render")), strict=False)):
            target = self._target(stage, render.from_, entry)
            self.draw(target, entry, (*path, "render", index), when=render.when)

    def draw(
        self,
        target: str,
        entry: Located,
        path: KeyPath,
        *,
        by: str | None = None,
        when: str | None = None,
        together: Mapping[str, str] = NOTHING,
    ) -> None:
        """Keep a picture of the stage `target`, once its style is resolved and its renderer known.

        `by` is the stage that draws it, where that is another; `together` the products that it draws.
        """
        if when in PER_PARTITION or (when in PER_DATASET and together):
            what = f"drawing {'several products ' if together else ''}when: {when}"
            self.findings.accept(what, path, matters=False)
        resolved = self.styles.of_render(entry)
        if resolved is None:
            return
        op, written_out = resolved.get("op"), resolved.get("out")
        if op is None or op.text is None:
            hint = "for example op: hep.render.hist1d"
            self.findings.report(errors.MISSING_KEY, "the picture names no renderer: 'op' is missing", entry, hint=hint)
            return
        self._check_braces("out", written_out, ())
        settings = resolved.without(*NOT_THE_RENDERERS)
        if check_name(PluginKind.RENDERER, op, self.findings):
            check_settings(PluginKind.RENDERER, op.text, settings, f"renderer '{op.text}'", self.findings)
        self.renders.setdefault(target, []).append(
            Render(
                op.text,
                written_out.text if written_out is not None else by,
                per_dataset=when in PER_DATASET,
                settings=plain_mapping(settings),
                by=by,
                together=together,
                path=path,
            )
        )

    def _target(self, stage: str, other: str | None, entry: Located) -> str:
        named = entry.get("from")
        if other is None or named is None:
            return stage
        self.elsewhere.append(named)
        return other

    def _write(self, target: str, model: WriteModel, entry: Located, path: KeyPath) -> None:
        per_dataset, per_run = model.when in PER_DATASET, model.when in AT_THE_END
        known = () if per_run else PLACEHOLDERS[:1] if per_dataset else PLACEHOLDERS
        where = "where all datasets have one file" if per_run else "where a dataset has one file" if per_dataset else ""
        self._check_braces("path", entry.get("path"), known, f" {where}".rstrip())
        merged = self._with_layout(entry)
        settings, keep = merged.without(*NOT_THE_SINKS), merged.get("keep")
        if check_name(PluginKind.SINK, entry.get("kind"), self.findings):
            check_settings(PluginKind.SINK, model.kind, settings, f"sink '{model.kind}'", self.findings)
            self._check_when(model.kind, entry, whole=per_dataset or per_run)
        columns = tuple(item.text or "" for item in one_or_many(keep)) if keep is not None else None
        columns = columns or self._wanted(model.kind, settings)
        self.writes.setdefault(target, []).append(
            Write(
                model.kind,
                target if model.path is None else model.path,
                keep=columns,
                per_dataset=per_dataset,
                per_run=per_run,
                settings=plain_mapping(settings),
                path=path,
            )
        )

    def _check_braces(self, key: str, written: Located | None, known: Sequence[str], where: str = "") -> None:
        """Note a name in braces that stands for nothing."""
        for name in re.findall(r"\{([^{}]*)\}", written.text or "" if written is not None else ""):
            if name not in known and written is not None:
                self.findings.report_unknown(
                    errors.BAD_VALUE,
                    f"'{{{name}}}' in '{key}' is not a known name{where}",
                    written.holding(name),
                    known,
                    what="names in braces",
                )

    def _wanted(self, sink: str, settings: Located) -> tuple[str, ...] | None:
        """The columns that a sink asks for by itself."""
        try:
            made = registry.make(PluginKind.SINK, sink, settings.plain() if settings.mapping else {})
        except CenoteError:
            return None  # check_settings has said so
        return made.wants()  # type: ignore[no-any-return]  # the registry gives any plugin

    def _check_when(self, sink: str, entry: Located, *, whole: bool) -> None:
        """Note a sink that cannot put parts together, and one that has to."""
        try:
            found = registry.load(PluginKind.SINK, sink)
        except CenoteError:
            return  # check_settings has said so
        if whole and not found.can_merge():
            self.findings.report(
                errors.BAD_VALUE,
                f"sink '{sink}' cannot write one file for a whole dataset: it cannot join parts",
                entry.get("when"),
                hint="leave `when` out: then every partition has a file",
            )
        if found.demands_whole and not whole:
            self.findings.report(
                errors.BAD_VALUE,
                f"sink '{sink}' makes one file of everything",
                entry.get("when") or entry,
                hint="write `when: final`, or `when: dataset` for one of each dataset",
            )

    def _with_layout(self, entry: Located) -> Located:
        use = entry.get("use")
        if use is None or use.text is None:
            return entry
        known = self.outputs.mapping if self.outputs else {}
        if use.text not in known:
            self.findings.report_unknown(
                errors.BAD_VALUE, f"there is no layout '{use.text}' in 'outputs'", use, known, what="outputs"
            )
            return entry
        return merge(known[use.text], entry)
