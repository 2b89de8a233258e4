"""Check what a workflow runs on: datasets, sources, fields and joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.common.text import nearest
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_name, check_settings
from cenote.language.checks.validation import described, keys_of, validated
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import DataDefaultsModel, DataModel, DatasetModel, FieldModel, SourceModel
from cenote.language.systematics import KeyPath
from cenote.language.workflow import Dataset, Field, SourceUse
from cenote.language.yaml.source import Located, read_yaml

_PLACES: tuple[tuple[str, ...], ...] = (("datasets",), ("data", "datasets"))
"""Where datasets stand."""
_OF_DATASETS = (
    "name",
    "files",
    "eventtype",
    "group",
    "max_events",
    "nevents",
    "on_bad_file",
    "max_bad_files",
    "verify",
)
"""What is no metadata."""


def entries(node: Located | None, what: str, findings: Findings) -> Iterable[tuple[str, Located]]:
    """The entries of a mapping; anything else there is a problem."""
    if node is None or node.value is None:
        return ()
    if not isinstance(node.value, dict):
        findings.report(errors.BAD_VALUE, f"{what} should be a mapping, not {described(node)}", node)
        return ()
    return node.value.items()


def check_datasets(root: Located, folder: Path, findings: Findings) -> tuple[Dataset, ...]:
    """The datasets of `datasets`, `data.datasets` and `data.catalogue`, in this order."""
    data = root.get("data")
    for key, child in entries(data, "'data'", findings):
        if key not in keys_of(DataModel):
            findings.report_unknown_key(key, child, "'data'", keys_of(DataModel))
    defaults = _defaults(data.get("defaults") if data else None, findings)
    found: dict[str, tuple[Dataset, Located]] = {}
    written = [pair for path in _PLACES for pair in _written_datasets(root.get(*path), path, findings)]
    written += catalogued(root, folder, findings)
    for item_path, node in written:
        dataset = _dataset(node, item_path, defaults, findings)
        if dataset is None:
            continue
        if dataset.name in found:
            _report_twice("dataset", dataset.name, node, found[dataset.name][1], findings)
        found.setdefault(dataset.name, (dataset, node))
    return tuple(dataset for dataset, _ in found.values())


def dataset_names(root: Located) -> frozenset[str]:
    """The names of all datasets, broken ones included: a reference to one of them is not at fault."""
    written = [node.get("name") for path in _PLACES for _, node in _written_datasets(root.get(*path), path, Findings())]
    return frozenset(str(name.value) for name in written if name is not None)


def _report_twice(what: str, name: str, node: Located, first: Located, findings: Findings) -> None:
    at = node.get("id") or node.get("name") or node
    details = (f"first at {first.place}",) if first.place else ()
    findings.report(errors.DUPLICATE_ID, f"two {what}s are named '{name}'", at, details=details)


def _defaults(node: Located | None, findings: Findings) -> dict[str, Any]:
    if node is None or node.value is None:
        return {}
    model = validated(DataDefaultsModel, node, "'data.defaults'", findings)
    return model.model_dump(exclude_none=True, exclude={"tree_primary"}) if model else {}


def _written_datasets(node: Located | None, path: KeyPath, findings: Findings) -> Iterator[tuple[KeyPath, Located]]:
    """Each dataset with its name inside it, whether they stand in a list or under their names."""
    if node is None or node.value is None:
        return
    if isinstance(node.value, list):
        yield from (((*path, index), item) for index, item in enumerate(node.value))
        return
    for name, item in entries(node, "'datasets'", findings):
        if not isinstance(item.value, dict):  # files alone
            item = item.holding({"files": item})
        named = {"name": Located(name, item.layer, item.key_place or item.place), **item.mapping}
        yield (*path, name), item.holding(named)


def catalogued(root: Located, folder: Path, findings: Findings) -> Iterator[tuple[KeyPath, Located]]:
    """The datasets of files under `data.catalogue`; names of files there are beside the catalogue."""
    node = root.get("data", "catalogue")
    for written in [] if node is None or node.value is None else node.items or [node]:
        if written.text is None:
            findings.report(errors.BAD_VALUE, "'data.catalogue' takes names of JSON or YAML files", written)
            continue
        beside, here = (place / storage.expanded(written.text) for place in (folder, Path()))
        file = here if not storage.is_file(beside) and storage.is_file(here) else beside
        parsed = read_yaml(file, layer=file.name)
        findings.problems += [problem.at(written.place) for problem in parsed.problems]
        if parsed.root is None:
            continue
        held = parsed.root.get("datasets") or parsed.root
        if held.mapping and all(item.value is None for item in held.mapping.values()):
            # What it holds instead is shown to nobody: whoever wrote the workflow may have named anybody's file.
            findings.report(errors.BAD_YAML, f"{file} holds no datasets: none of its names has files", written)
            continue
        for path, item in _written_datasets(held, ("data", "catalogue"), findings):
            files = item.get("files")
            yield path, item.holding({**item.mapping, "files": _beside(files, file.parent)}) if files else item


def _beside(files: Located, folder: Path) -> Located:
    """The names of a list, or the keys of a mapping (file → tree), as paths that begin with a folder."""
    names = (
        [Located(name, files.layer, files.place) for name in files.mapping] if files.mapping else files.items or [files]
    )
    return files.holding([name.holding(_placed(name.text, folder)) if name.text else name for name in names])


def _placed(name: str, folder: Path) -> str:
    whole = "://" in name or name.startswith(("/", "~", "$"))
    return name if whole else str(folder.absolute() / name)


def _dataset(node: Located, path: KeyPath, defaults: dict[str, Any], findings: Findings) -> Dataset | None:
    name = node.get("name")
    what = f"dataset '{name.value}'" if name is not None and name.text else f"dataset {path[-1]}"
    model = validated(DatasetModel, node, what, findings)
    if model is None:
        return None
    extra = model.model_extra or {}
    for key in extra:
        meant = nearest(key, keys_of(DatasetModel))
        if meant:
            place = node.mapping[key].key_place
            findings.warnings.append(f"{place}: '{key}' is kept as metadata of {what}; did you mean '{meant}'?")
    given = {**defaults, **model.model_dump(exclude_none=True, exclude={"metadata"})}
    known = {key: given.pop(key) for key in _OF_DATASETS if key in given}
    if model.max_bad_files is not None and known.get("on_bad_file") != "skip":
        words = f"'max_bad_files' of {what} is used with on_bad_file: skip"
        findings.report(errors.BAD_VALUE, words, node.get("max_bad_files"), on_key=True, hint="add on_bad_file: skip")
    return Dataset(**known, metadata={**given, **(model.metadata or {})}, path=path)


def check_sources(root: Located, findings: Findings) -> tuple[SourceUse, ...]:
    """The sources; without any, one `root_tree` called `events`."""
    found = [
        source
        for name, node in entries(root.get("sources"), "'sources'", findings)
        if (source := _source(name, node, findings)) is not None
    ]
    if found or root.get("sources") is not None:
        return tuple(found)
    tree = root.get("data", "defaults", "tree_primary")
    settings = {"tree": tree.text} if tree is not None and tree.text else {}
    return (SourceUse("events", "root_tree", settings, path=("sources", "events")),)


def _source(name: str, node: Located, findings: Findings) -> SourceUse | None:
    what = f"source '{name}'"
    model = validated(SourceModel, node, what, findings)
    if model is None:
        return None
    path = ("sources", name)
    if model.defaults and model.missing_branches != "default":
        words = f"'defaults' of {what} are used with missing_branches: default"
        findings.report(
            errors.BAD_VALUE, words, node.get("defaults"), on_key=True, hint="add missing_branches: default"
        )
    for column, value in (model.defaults or {}).items():
        if not isinstance(value, bool | int | float | str):
            words = f"the default of '{column}' should be a number, true, false or a text"
            findings.report(errors.BAD_VALUE, words, node.get("defaults", column))
    check_name(PluginKind.SOURCE, node.get("kind"), findings)
    own = node.without(*SourceModel.model_fields)
    if not check_settings(PluginKind.SOURCE, model.kind, own, what, findings):
        return None
    return SourceUse(
        id=name,
        kind=model.kind,
        settings=own.plain(),
        branches=model.branches,
        start=model.start,
        stop=model.stop,
        chunk_size=model.chunk_size,
        missing_branches=model.missing_branches,
        defaults=model.defaults or {},
        same_file=model.same_file,
        path=path,
    )


def generated_datasets(sources: Iterable[SourceUse]) -> tuple[Dataset, ...]:
    """Of a workflow without datasets: those of sources that need no files."""
    found = []
    for use in sources:
        try:
            own = registry.load(PluginKind.SOURCE, use.kind).own_dataset(use.settings)
        except (CenoteError, ImportError, ValidationError):
            continue  # whoever checks the source says so
        if own is not None:
            found.append(Dataset(**own, path=use.path))
    return tuple(found[:1])


def check_fields(root: Located, streams: Iterable[str], findings: Findings) -> tuple[Field, ...]:
    """The aliases, each of a source or join that is there."""
    known, found = set(streams), []
    for alias, node in entries(root.get("fields"), "'fields'", findings):
        if node.text is not None:
            found.append(Field(alias, None, node.text, path=("fields", alias)))
            continue
        model = validated(FieldModel, node, f"field '{alias}'", findings)
        if model is None:
            continue
        check_stream(node.get("stream"), model.stream, known, findings)
        found.append(Field(alias, model.stream, model.branch, path=("fields", alias)))
    return tuple(found)


def check_primary_stream(root: Located, streams: Iterable[str], findings: Findings) -> str | None:
    """The source or join that stages start from, where the file says so."""
    node = root.get("primary_stream")
    if node is None or node.value is None:
        return None
    check_stream(node, node.text, set(streams), findings)
    return node.text


def check_stream(node: Located | None, name: str | None, known: set[str], findings: Findings) -> None:
    """Note a source or join that is referred to and not there."""
    if node is not None and name not in known:
        shown = node.holding(name)
        findings.report_unknown(
            errors.UNKNOWN_STAGE, f"there is no source or join '{name}'", shown, known, what="sources and joins"
        )
