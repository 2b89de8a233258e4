"""Check `joins`, and make a source of each: what reads several sources side by side is a source itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import get_args

from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.language.checks.data import check_stream, entries
from cenote.language.checks.execution import one_or_many
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import JoinInputModel, JoinModel
from cenote.language.systematics import KeyPath
from cenote.language.workflow import SameFile, SourceUse, Stage
from cenote.language.yaml.source import Located, read_yaml

ZIP, ZIP_JOIN = "zip", "hep.zip_join"
"""The source that reads others side by side, and the operation that stands for a join."""


def joined_by(stage: str) -> str:
    """The name of the source that a stage `hep.zip_join` starts from."""
    return f"{stage}.join"


def check_joins(root: Located, sources: Sequence[SourceUse], findings: Findings) -> tuple[SourceUse, ...]:
    """A source for each entry of `joins`, and for each stage that joins sources."""
    known = {source.id: source for source in sources}
    written = {*known, *(root.get("sources") or root.holding({})).mapping}
    found = []
    for name, node in entries(root.get("joins"), "'joins'", findings):
        model = validated(JoinModel, node, f"join '{name}'", findings)
        if name in written:
            findings.report(errors.DUPLICATE_ID, f"a source and a join are both named '{name}'", node, on_key=True)
        if model is None:
            continue
        for index, one in enumerate(model.inputs):
            item = node.mapping["inputs"].items[index]
            check_stream(item.get("source") or item, one.source, written, findings)
        if all(one.source in known for one in model.inputs):
            found.append(_joined(name, model, known, node, ("joins", name), findings))
    return (*found, *_of_stages(root, known, findings))


def _of_stages(root: Located, known: Mapping[str, SourceUse], findings: Findings) -> list[SourceUse]:
    found = []
    for number, node in enumerate(one_or_many(root.get("analysis", "stages"))):
        op, named = node.get("op"), node.get("id")
        if op is None or op.text != ZIP_JOIN or named is None or named.text is None:
            continue
        inputs = [(entry.get("node") or entry).text or "" for entry in one_or_many(node.get("from") or node.get("in"))]
        if len(inputs) < 2 or any(name not in known for name in inputs):
            words = f"stage '{named.text}': {ZIP_JOIN} joins sources, two or more of them under `from`"
            findings.report(errors.BAD_VALUE, words, op, hint="for branches of stages there is hep.merge_fields")
            continue
        prefixes = {
            str(one.get("name")): one.get("prefix")
            for one in (node.get("params", "inputs") or node.holding([])).plain() or ()
            if isinstance(one, dict)
        }
        given = [JoinInputModel(source=name, prefix=prefixes.get(name)) for name in inputs]
        mismatch = node.get("params", "on_mismatch")
        policy = "warn" if mismatch is not None and mismatch.text == "warn" else "error"
        model = JoinModel(inputs=tuple(given), on_mismatch=policy)
        path = ("analysis", "stages", number)
        found.append(_joined(joined_by(named.text), model, known, node, path, findings))
    return found


def _joined(
    name: str, model: JoinModel, known: Mapping[str, SourceUse], node: Located, path: KeyPath, findings: Findings
) -> SourceUse:
    """What holds for all of its sources holds for it."""
    uses = [known[one.source] for one in model.inputs]
    limits = {(use.start, use.stop) for use in uses}
    if len(limits) > 1:
        words = f"the sources of join '{name}' have different `start` or `stop`: they are read side by side"
        findings.report(errors.BAD_VALUE, words, node)
    prefixes = [one.source if one.prefix is None else one.prefix for one in model.inputs]
    if twice := next((prefix for prefix in prefixes if prefixes.count(prefix) > 1), None):
        words = f"two inputs of join '{name}' have the prefix '{twice}'"
        findings.report(errors.BAD_VALUE, words, node, hint="give one of them a `prefix` of its own")
    inputs = [
        {
            "prefix": prefix,
            "kind": use.kind,
            "settings": dict(use.settings),
            **({"file": one.file} if one.file else {}),
        }
        for one, use, prefix in zip(model.inputs, uses, prefixes, strict=True)
    ]
    return SourceUse(
        id=name,
        kind=ZIP,
        settings={"inputs": inputs, "on_mismatch": model.on_mismatch},
        branches=_listed_by_all(uses, prefixes),
        start=uses[0].start,
        stop=uses[0].stop,
        of=tuple(use.id for use in uses),
        same_file=max((use.same_file for use in uses), key=get_args(SameFile).index),
        chunk_size=next((use.chunk_size for use in uses if use.chunk_size), None),
        path=path,
    )


def _listed_by_all(uses: Sequence[SourceUse], prefixes: Sequence[str]) -> tuple[str, ...] | None:
    """What `branches` of all sources list; None where one of them lists nothing, and so gives everything."""
    if any(use.branches is None for use in uses):
        return None
    both = zip(uses, prefixes, strict=True)
    return tuple(f"{prefix}.{name}" if prefix else name for use, prefix in both for name in use.branches or ())


def read_by_stages(
    sources: Sequence[SourceUse], joins: Sequence[SourceUse], stages: Sequence[Stage], named: Collection[str]
) -> tuple[SourceUse, ...]:
    """What has to be opened: joins first, since stages start there unless they say otherwise, then their own sources
    only where somebody reads them by themselves."""
    used = {stage.source for stage in stages if not stage.needs and stage.source is not None} | set(named)
    inside = {name for join in joins for name in join.of}
    apart = [source for source in sources if source.id in used or source.id not in inside]
    return (*joins, *apart)


# Read settings of a stage that stand in a file of their own: `aliases: names.yaml`.


ENDINGS = (".yaml", ".yml", ".json")


def with_mapping_files(stage: Located, folder: Path, findings: Findings) -> Located:
    """The stage with what such files hold in their place; what is wrong in one is found at its place in that file."""
    params, op = stage.get("params"), stage.get("op")
    if params is None or op is None or op.text is None:
        return stage
    named = {key: value for key, value in params.mapping.items() if (value.text or "").endswith(ENDINGS)}
    taken = {key: value for key, value in named.items() if key in _from_files(op.text)}
    if not taken:
        return stage
    read = {key: _content(value, folder, findings) for key, value in taken.items()}
    return stage.holding({**stage.mapping, "params": params.holding({**params.mapping, **read})})


def _from_files(operation: str) -> tuple[str, ...]:
    """The settings of an operation that may stand in a file."""
    try:
        found: tuple[str, ...] = registry.load(PluginKind.OPERATION, operation).from_files
    except (CenoteError, ImportError):
        return ()  # whoever checks the operation says so
    return found


def _content(name: Located, folder: Path, findings: Findings) -> Located:
    beside, here = (place / storage.expanded(name.text or "") for place in (folder, Path()))
    path = here if not storage.is_file(beside) and storage.is_file(here) else beside
    if not storage.is_file(path):
        findings.report(errors.MISSING_FILE, f"there is no file '{name.text}'", name, hint=f"looked in {path.parent}")
        return name.holding({})
    parsed = read_yaml(path, layer=path.name)
    findings.problems += parsed.problems
    return parsed.root if parsed.root is not None else name.holding({})
