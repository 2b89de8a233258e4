"""Load the workflow's own plugins and check names and settings against those that are there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.common.signals import Interrupted
from cenote.common.text import nearest
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import report_errors
from cenote.language.plugins import own_functions, registry
from cenote.language.plugins.kinds import PLANNED, PluginKind
from cenote.language.schema.forms import STRATEGY_ALIASES
from cenote.language.workflow import PluginSource
from cenote.language.yaml.source import Located

ALIASES = {PluginKind.STRATEGY: frozenset(STRATEGY_ALIASES)}
"""Other names of plugins that files may use."""

REGISTRY_KINDS = {
    **{kind.plural: kind for kind in PluginKind},
    "transforms": PluginKind.OPERATION,
    "render": PluginKind.RENDERER,
    "execution_modifiers": PluginKind.MODIFIER,
}
"""Words under `registry`, ours and FAST-HEP's."""

OTHER_REGISTRY_KINDS = (
    "functions",
    "constants",
    "observers",
    "hooks",
    "compile_hooks",
    "progress_sinks",
    "report_templates",
    "product_handlers",
    "resource_kinds",
)
"""FAST-HEP's other words."""
KNOWN_FUNCTIONS = ("numpy:", "awkward:", "fasthep_")
"""Functions of these makers mean the same as those that expressions have under their names."""


def load_plugins(root: Located, folder: Path, findings: Findings) -> tuple[PluginSource, ...]:
    """Make the plugins of `plugins` and `registry` known, and say where they came from."""
    listed_ones = root.get("plugins")
    entries = listed_ones.items or [listed_ones] if listed_ones is not None else []
    loaded = []
    for index, entry in enumerate(entries):
        if entry.text is None:
            if entry.value not in (None, []):
                findings.report(errors.BAD_VALUE, "'plugins' takes Python files and names of packages", entry)
            continue
        path = ("plugins", index) if listed_ones and listed_ones.items else ("plugins",)
        source = PluginSource(_target(entry, folder), path=path)
        if _loaded(source, entry, findings):
            loaded.append(source)
    return (*loaded, *_from_registry(root.get("registry"), findings))


def _target(entry: Located, folder: Path) -> str:
    """A file or package is looked for beside the workflow, then beside the file that names it; any other name is that
    of an installed package."""
    name = entry.text or ""
    named_in = Path(entry.place.file).parent if entry.place else folder
    tried = [beside / storage.expanded(name) for beside in (folder, named_in)]
    if name.endswith(".py") or "/" in name:
        there = [path for path in tried if storage.is_file(path) or storage.is_folder(path)]
        return str(storage.resolved((there or tried)[0]))
    beside = [path.with_name(f"{path.name}.py") for path in tried] + tried
    own = [path for path in beside if storage.is_file(path) or storage.is_file(path / "__init__.py")]
    return str(storage.resolved(own[0])) if own else name


def _loaded(source: PluginSource, entry: Located, findings: Findings) -> bool:
    try:
        if source.target.endswith(".py") or "/" in source.target:
            registry.add_file(Path(source.target))
        elif source.kind == own_functions.KIND and source.name is not None:
            own_functions.add(source.name, source.target)
        elif source.kind is not None:
            registry.add_import(source.target, kind=PluginKind(source.kind), name=source.name)
        else:
            registry.add_import(source.target)
    except CenoteError as problem:
        named = (f"named at {entry.place}",) if entry.place else ()
        findings.add(
            [replace(one, details=(*one.details, *named)) if one.place else one for one in problem.problems], entry
        )
        findings.plugins_failed = True
        return False
    return True


def _from_registry(node: Located | None, findings: Findings) -> list[PluginSource]:
    found: list[PluginSource] = []
    for word, names in (node.mapping if node else {}).items():
        if word in OTHER_REGISTRY_KINDS:
            if word not in ("functions", "constants", "report_templates"):
                findings.accept(f"registry.{word}", ("registry", word), matters=False)
            found += _functions(names, findings) if word == "functions" else ()
            continue
        if word not in REGISTRY_KINDS:
            known = [*REGISTRY_KINDS, *OTHER_REGISTRY_KINDS]
            hidden = Located(word, names.layer, names.key_place)
            findings.report_unknown(
                errors.UNKNOWN_KEY, f"there is no kind of plugin '{word}'", hidden, known, what="kinds"
            )
            continue
        for name, entry in names.mapping.items():
            target = entry if entry.text is not None else entry.get("impl")
            if target is None or target.text is None or ":" not in target.text:
                findings.report(errors.BAD_VALUE, f'registry.{word}.{name} needs impl: "module:object"', entry)
                continue
            spec = entry.get("spec") if entry.mapping else None
            described = f"{registry.DESCRIBED_BY}{spec.text}" if spec is not None and spec.text else ""
            kind = REGISTRY_KINDS[word].value
            source = PluginSource(f"{target.text}{described}", kind, name, ("registry", word, name))
            if _loaded(source, target, findings):
                found.append(source)
    return found


def _functions(names: Located, findings: Findings) -> list[PluginSource]:
    """Functions for expressions. One that they have already, under the name that its maker gives it, stays theirs."""
    found = []
    for name, entry in names.mapping.items():
        target = entry if entry.text is not None else entry.get("impl")
        if target is None or target.text is None or ":" not in target.text:
            findings.report(errors.BAD_VALUE, f'registry.functions.{name} needs "module:function"', entry)
        elif not own_functions.is_built_in(name):
            source = PluginSource(target.text, own_functions.KIND, name, ("registry", "functions", name))
            found += [source] if _loaded(source, target, findings) else []
        elif not target.text.startswith(KNOWN_FUNCTIONS):
            words = f"expressions have a function '{name}' already"
            findings.report(errors.BAD_VALUE, words, entry, on_key=True, hint="give yours another name")
    return found


def registered_constants(node: Located | None, findings: Findings) -> dict[str, Any]:
    """The values under `registry.constants`, by name."""
    constants = node.get("constants") if node is not None else None
    found: dict[str, Any] = {}
    for name, entry in (constants.mapping if constants is not None else {}).items():
        if isinstance(entry.value, bool | int | float | str):
            found[name] = entry.value
        else:
            findings.report(
                errors.BAD_VALUE, f"registry.constants.{name} should be a number, true, false or text", entry
            )
    return found


def known_names(kind: PluginKind) -> frozenset[str]:
    """Every plugin that the language knows, be it here already or planned."""
    return frozenset({*ALIASES.get(kind, ()), *registry.names(kind), *PLANNED.get(kind, {})})


def check_name(kind: PluginKind, name: Located | None, findings: Findings) -> bool:
    """Note a plugin that the language does not know."""
    known = known_names(kind)
    if name is None or name.text is None or name.text in known:
        return True
    if not explained_by_plugins(name.text, known, findings):
        findings.add([registry.unknown(kind, name.text)], name)
    return False


def explained_by_plugins(name: str, known: Collection[str], findings: Findings) -> bool:
    """Whether a name is not there because a plugin could not be loaded; a slip in one of ours is no such name."""
    meant = nearest(name, known)
    return findings.plugins_failed and (meant is None or meant.partition(".")[0] != name.partition(".")[0])


def check_settings(kind: PluginKind, name: str, settings: Located, what: str, findings: Findings) -> bool:
    """Whether the plugin takes these settings; what it refuses is noted.

    A plugin that is only planned has no fields to check against.
    """
    if name not in registry.names(kind):
        return True
    try:
        factory = registry.load(kind, name)
    except CenoteError as problem:
        findings.add(problem.problems, settings)
        return False
    except ImportError as problem:
        findings.report(errors.ENVIRONMENT, f"{kind.value} '{name}' needs missing software: {problem}", settings)
        return False
    try:
        factory.model_validate(settings.plain())
        return True
    except ValidationError as problem:
        report_errors(problem.errors(include_url=False), factory, settings, what, findings)
    except CenoteError as problem:
        findings.add(problem.problems, settings)
    except Interrupted:
        raise
    except BaseException as problem:  # a plugin's own validator; a fault there must not look like one of ours
        words = f"{what}: {kind.value} '{name}' rejects its settings: {errors.words_of(problem)}"
        findings.report(errors.BAD_PLUGIN, words, settings)
    return False


def plain_mapping(node: Located | None) -> Mapping[str, Any]:
    """The bare content of a mapping; empty for anything else."""
    return node.plain() if node is not None and node.mapping else {}
