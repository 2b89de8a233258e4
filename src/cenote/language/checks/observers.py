"""Check observers, which describe columns at some places, and hooks, which FAST-HEP calls while it runs."""

from __future__ import annotations

from collections.abc import Iterator

from cenote import errors
from cenote.language.checks.execution import one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.origins import KeyPath
from cenote.language.schema.document import HookModel, ObserverModel
from cenote.language.schema.stage import InspectModel
from cenote.language.workflow import Observer
from cenote.language.yaml.source import Located

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
