"""Check `systematics`: write matrices out, find what variations name, and merge patches into the stages they change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.common.values import dataclass
from cenote.language.checks.execution import one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_settings
from cenote.language.checks.validation import validated
from cenote.language.layers.profiles import find_profile, merge
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import SystematicsModel, VariationModel
from cenote.language.systematics import NOMINAL, KeyPath, Systematics, Variation, VariedDatasets, parts_of_name
from cenote.language.yaml.source import Located, read_yaml

_PATH = ("systematics", "variations")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_STAGE = "stage."
_CHANGES = ("weight", "replace", "datasets", "patch")


def check_systematics(root: Located, folder: Path, datasets: frozenset[str], findings: Findings) -> Systematics | None:
    """The variations, each checked for itself; None where there are none. `folder` is the workflow's."""
    node = root.get("systematics")
    if node is None or node.value is None:
        return None
    plain = {key: child for key, child in node.mapping.items() if key != "variations"}
    model = validated(SystematicsModel, node.holding(plain) if node.mapping else node, "'systematics'", findings)
    if model is None:
        return None
    written = node.get("variations")
    if written is not None and written.value is not None and not isinstance(written.value, list):
        validated(SystematicsModel, node, "'systematics'", findings)
        return None
    work = _Checking(_stage_nodes(root), datasets, findings)
    profiles = [entry for name in one_or_many(node.get("profiles")) for entry in _of_profile(name, folder, findings)]
    entries: list[tuple[Located, KeyPath]] = [(entry, ()) for entry in profiles]
    entries += [(entry, (*_PATH, index)) for index, entry in enumerate(written.items if written else ())]
    found = [
        variation
        for entry, path in entries
        for one in _written_out(entry, findings)
        if (variation := work.variation(one, path)) is not None
    ]
    return Systematics(tuple(found), cutflows=model.cutflows)


def _of_profile(name: Located, folder: Path, findings: Findings) -> list[Located]:
    """The variations of a profile: under `systematics`, as in a workflow, or by themselves."""
    try:
        path = find_profile(name.text or "", folder=folder, beside=folder)
    except CenoteError as problem:
        findings.add(problem.problems, name)
        return []
    if path is None:
        return []
    parsed = read_yaml(path, layer=f"profile {name.text}")
    findings.add(parsed.problems, name)
    root = parsed.root
    found = None if root is None else root.get("systematics", "variations") or root.get("variations")
    if root is not None and (found is None or not isinstance(found.value, list)):
        findings.report(errors.MISSING_KEY, f"'{name.text}' has no list of variations", name)
    return found.items if found else []


def _stage_nodes(root: Located) -> dict[str, Located]:
    stages = root.get("analysis", "stages")
    named = [(stage.get("id"), stage) for stage in (stages.items if stages else ())]
    return {str(name.value): stage for name, stage in named if name is not None}


def _written_out(entry: Located, findings: Findings) -> Iterator[Located]:
    """One entry for each combination of the values of its matrix."""
    matrix = entry.get("matrix")
    if matrix is None or not isinstance(matrix.value, dict) or not all(one.items for one in matrix.value.values()):
        yield entry
        return
    rest = {key: child for key, child in entry.mapping.items() if key != "matrix"}
    _check_placeholders(entry.holding(rest), matrix, findings)
    for values in product(*(one.items for one in matrix.value.values())):
        yield _filled(entry.holding(rest), dict(zip(matrix.value, values, strict=True)))


def _filled(node: Located, values: Mapping[str, Located]) -> Located:
    """With placeholders replaced; a text that is nothing but a placeholder becomes the value itself."""
    if isinstance(node.value, dict):
        return node.holding({_text(key, values): _filled(child, values) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node.holding([_filled(child, values) for child in node.value])
    if not isinstance(node.value, str):
        return node
    whole = _PLACEHOLDER.fullmatch(node.value)
    if whole and whole[1] in values:
        return node.holding(values[whole[1]].value)
    return node.holding(_text(node.value, values))


def _text(text: str, values: Mapping[str, Located]) -> str:
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]].plain()) if found[1] in values else found[0], text)


def _check_placeholders(node: Located, matrix: Located, findings: Findings) -> None:
    for child in (*node.mapping.values(), *node.items):
        _check_placeholders(child, matrix, findings)
    for name in _PLACEHOLDER.findall(node.text or ""):
        if name not in matrix.mapping:
            words = f"there is no '{name}' in the matrix"
            findings.report_unknown(
                errors.BAD_VALUE, words, Located(name, node.layer, node.place), matrix.mapping, what="names"
            )


def _stage_name(written: str) -> str:
    """FAST-HEP also writes `stage.NAME`."""
    return written.removeprefix(_STAGE)


@dataclass
class _Checking:
    """Checks the variations of one document."""

    stages: Mapping[str, Located]
    datasets: frozenset[str]
    findings: Findings

    def __post_init__(self) -> None:
        self.names: dict[str, Located] = {}
        self.sides: dict[tuple[str, str | None], str] = {}

    def variation(self, node: Located, path: KeyPath) -> Variation | None:
        named = node.get("name")
        what = f"variation '{named.value}'" if named is not None and named.value else "a variation"
        model = validated(VariationModel, node, what, self.findings)
        self._check_references(node)
        self._note_stages(node, what)
        if model is None or named is None or self._is_taken(model.name, named):
            return None
        if not any(node.get(key) for key in (*_CHANGES, "params")):
            words = f"{what} changes nothing: it needs {', '.join(f'`{key}`' for key in _CHANGES)} or several of them"
            self.findings.report(errors.MISSING_KEY, words, node)
        if model.export and not model.stop_before:
            self.findings.missing("stop_before", f"{what}, which exports columns", node)
        group, direction = parts_of_name(model.name)
        applies = model.applies_to
        return Variation(
            name=model.name,
            group=model.group or group,
            direction=model.direction.lower() if model.direction else direction,
            applies_to=VariedDatasets(applies.eventtypes, applies.datasets) if applies else VariedDatasets(),
            requires=tuple(name for name in model.requires if not name.startswith(_STAGE)),
            factors=tuple(map(str, model.weight.multiply)) if model.weight else (),
            replace=model.replace or {},
            datasets=self._replaced(model),
            anchor=_stage_name(model.anchor) if model.anchor and model.patch else None,
            params=self._patched(node, model, what),
            stop_before=tuple(map(_stage_name, model.stop_before)),
            export=model.export or {},
            metadata=model.metadata or {},
            path=path,
            place=node.place,
        )

    def _replaced(self, model: VariationModel) -> Mapping[str, str]:
        """Dataset → what takes its place, of those that are there."""
        given = model.datasets.replace if model.datasets else {}
        return {name: other for name, other in given.items() if {name, other} <= self.datasets}

    def _is_taken(self, name: str, node: Located) -> bool:
        if name == NOMINAL:
            words = f"no variation can be called '{NOMINAL}': that is the unchanged analysis"
            self.findings.report(errors.BAD_VALUE, words, node)
            return True
        if name in self.names:
            first = self.names[name].place
            details = (f"first at {first}",) if first else ()
            hint = "a name with `{…}` for each name of the matrix keeps its variations apart"
            self.findings.report(
                errors.DUPLICATE_ID, f"two variations are named '{name}'", node, details=details, hint=hint
            )
            return True
        self.names[name] = node
        side = parts_of_name(name)
        other = self.sides.setdefault(side, name)
        if side[1] is not None and other != name:
            words = f"variations '{other}' and '{name}' are both the {side[1]} side of '{side[0]}'"
            self.findings.report(errors.DUPLICATE_ID, words, node, hint="give one of them another name")
            return True
        return False

    def _check_references(self, node: Located) -> None:
        for key in ("anchor", "stage", "stop_before"):
            for written in one_or_many(node.get(key)):
                named = written if written.text is None else written.holding(_stage_name(written.text))
                self._check_name(named, self.stages, "stage")
        for written in one_or_many(node.get("applies_to", "datasets")):
            self._check_name(written, self.datasets, "dataset")
        replaced = node.get("datasets", "replace")
        for name, other in (replaced.mapping if replaced else {}).items():
            self._check_name(Located(name, other.layer, other.key_place or other.place), self.datasets, "dataset")
            self._check_name(other, self.datasets, "dataset")

    def _note_stages(self, node: Located, what: str) -> None:
        """Say which stages are not there that it requires: FAST-HEP runs such a file, and columns are what counts."""
        for written in one_or_many(node.get("requires")):
            name = _stage_name(written.text or "")
            if name != written.text and name not in self.stages:
                self.findings.warnings.append(f"{what} requires the stage '{name}', which is not there")

    def _check_name(self, written: Located, known: Any, what: str) -> None:
        if written.text is not None and written.text not in known:
            words = f"there is no {what} '{written.text}'"
            self.findings.report_unknown(errors.UNKNOWN_STAGE, words, written, known, what=f"{what}s")

    def _patched(self, node: Located, model: VariationModel, what: str) -> Mapping[str, Any]:
        """The settings of the stage that it changes, changed."""
        patch = node.get("patch") or node.get("params")
        if patch is None or not model.patch:
            return {}
        if model.anchor is None:
            self.findings.missing("anchor", f"{what}, which has a patch", node)
            return {}
        if set(patch.mapping) == {"params"}:  # FAST-HEP takes both
            patch = patch.mapping["params"]
        stage = self.stages.get(_stage_name(model.anchor))
        if stage is None:
            return {}
        params, op = stage.get("params"), stage.get("op")
        merged = merge(params, patch) if params is not None and params.mapping else patch
        if op is not None and op.text is not None:
            named = f"the params of stage '{model.anchor}' in {what}"
            check_settings(PluginKind.OPERATION, op.text, merged, named, self.findings)
        found: Mapping[str, Any] = merged.plain()
        return found
