"""Put the layers of a workflow together: built-in, site, profiles, the file with includes, command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from importlib.resources import files
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.errors import Place, Problem
from cenote.common.text import nearest
from cenote.common.values import dataclass
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import keys_of
from cenote.language.layers.profiles import (
    BUILT_IN_PACKAGES,
    LAYER,
    assign,
    fill_pools,
    find_profile,
    merge,
    parse_assignment,
)
from cenote.language.layers.site import KEYS, find_site, is_site_layer, layer_of, what_holds
from cenote.language.plugins.registry import runs_here, starts_here
from cenote.language.schema.document import WorkflowModel
from cenote.language.schema.forms import strategy_name
from cenote.language.yaml.source import Located, parse_yaml, read_yaml

PROFILE_LISTS = (("use", "profiles"), ("execution", "profiles"))


@dataclass(frozen=True)
class Layered:
    """The merged document (None when the file itself cannot be read) and what was wrong on the way."""

    root: Located | None
    problems: tuple[Problem, ...]
    site: Path | None = None
    """The file of the site, where there is one."""


def read_layers(
    file: Path,
    *,
    content: bytes | None = None,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    backend: str | None = None,
    strategy: str | None = None,
) -> Layered:
    """Read a workflow and everything under and over it. Later layers win, key by key."""
    reader = _Reader(folder=file.parent)
    workflow = reader.with_includes(file, layer=file.name, content=content)
    if workflow is None:
        return Layered(None, tuple(reader.problems))
    assignments = reader.assignments(sets, backend, strategy)
    for steps, value in assignments:
        if steps in PROFILE_LISTS:
            workflow = reader.assigned(workflow, steps, value)
    above = [*reader.profiles_of(workflow), _without_profile_lists(workflow), *reader.named(profiles, beside=Path())]
    root = built_in()
    place = find_site()
    if (site := reader.site(place)) is not None:
        root = merge(root, what_holds(site, above, here=_chosen_here(above, assignments)))
    for layer in above:
        root = merge(root, layer)
    for steps, value in assignments:
        if steps not in PROFILE_LISTS:
            root = reader.assigned(root, steps, value)
    return Layered(fill_pools(root, reader.problems), tuple(reader.problems), place)


def read_site(path: Path) -> Layered:
    """The file of a site over what is built in, by itself."""
    reader = _Reader(folder=path.parent)
    site = reader.site(path)
    return Layered(merge(built_in(), site) if site is not None else None, tuple(reader.problems), path)


def _chosen_here(above: Sequence[Located], assignments: Sequence[tuple[tuple[str, ...], Located]]) -> bool:
    """Whether a workflow, a profile or the command line asks for a run on this machine."""
    for key, is_here in (("backend", runs_here), ("strategy", starts_here)):
        written = [layer.get("execution", key) for layer in above]
        written += [value for steps, value in assignments if steps == ("execution", key)]
        given = [node.text for node in written if node is not None]
        if given and given[-1] is not None and is_here(strategy_name(given[-1])):
            return True
    return False


def built_in() -> Located:
    """The lowest layer."""
    text = files("cenote.language").joinpath("built_in.yaml").read_text(encoding="utf-8")
    root = parse_yaml(text, file=None, layer="built-in").root
    assert root is not None, "the built-in layer is part of the package"
    return root


def _without_profile_lists(root: Located) -> Located:
    """The document without the names of profiles, which are merged in by now."""
    for section, key in PROFILE_LISTS:
        held = root.get(section)
        if held is not None and key in held.mapping:
            root = root.holding({**root.mapping, section: held.without(key)})
    return root


@dataclass
class _Reader:
    """Reads files and collects what is wrong with them, so that one bad layer does not hide the others."""

    folder: Path
    problems: list[Problem] = field(default_factory=list)

    def with_includes(
        self, path: Path, *, layer: str, trail: tuple[Path, ...] = (), content: bytes | None = None
    ) -> Located | None:
        """A file with the files it includes merged under it; None when it cannot be read."""
        parsed = read_yaml(path, layer=layer, content=content)
        self.problems += parsed.problems
        if parsed.root is None:
            return None
        root, include = parsed.root.without("include"), parsed.root.get("include")
        under: Located | None = None
        trail = (*trail, storage.resolved(path))
        for name in self._texts(include, "include"):
            other = self._included(path.parent / storage.expanded(name.text or ""), name, layer, trail)
            if other is not None:
                under = other if under is None else merge(under, other, concatenate=True)
        return root if under is None else merge(under, root, concatenate=True)

    def _included(self, path: Path, name: Located, layer: str, trail: tuple[Path, ...]) -> Located | None:
        resolved = storage.resolved(path)
        if resolved in trail:
            circle = " → ".join(step.name for step in (*trail[trail.index(resolved) :], resolved))
            self._report(errors.INCLUDE_CYCLE, f"files include each other in a circle: {circle}", name.place)
            return None
        if not storage.is_file(path):
            # The including line is where the mistake can be fixed, so the problem stands there.
            missing = read_yaml(path).problems
            self.problems += [Problem(p.kind, p.message, place=name.place, hint=p.hint) for p in missing]
            return None
        shown = layer if layer.startswith("profile ") or is_site_layer(layer) else path.name
        return self._part(self.with_includes(path, layer=shown, trail=trail), path, name.place)

    def _part(self, root: Located | None, path: Path, place: Place | None) -> Located | None:
        """A file that another one names, if it holds a part of a workflow; what it holds instead is shown to nobody."""
        known = [*keys_of(WorkflowModel), "includes"]
        if root is None or not root.mapping or any(key in known or nearest(key, known) for key in root.mapping):
            return root
        self._report(errors.BAD_YAML, f"{path} holds no part of a workflow: none of its keys is one", place)
        return None

    def site(self, path: Path | None) -> Located | None:
        """The file of a site, without what a site has no say in; None where there is none, or it cannot be read."""
        root = self.with_includes(path, layer=layer_of(path)) if path is not None else None
        if root is None:
            return None
        for key in [key for key in root.mapping if key not in KEYS]:
            Findings(self.problems).report_unknown_key(key, root.mapping[key], "the site configuration file", KEYS)
        if (profiles := root.get("execution", "profiles")) is not None:
            self._report(
                errors.UNKNOWN_KEY, "a site configuration file cannot name profiles; use `include`", profiles.key_place
            )
        return _without_profile_lists(root.holding({key: root.mapping[key] for key in KEYS if key in root.mapping}))

    def profiles_of(self, root: Located, trail: tuple[Path, ...] = ()) -> list[Located]:
        """The profiles that a document names, in order, each after those that it names itself."""
        found = []
        for section, key in PROFILE_LISTS:
            for name in self._texts(root.get(section, key), f"{section}.{key}"):
                beside = Path(name.place.file).parent if name.place else Path()
                found += self._profile(name.text or "", name.place, beside, trail)
        return found

    def named(self, names: Sequence[str], *, beside: Path) -> list[Located]:
        """Profiles that the command line names."""
        return [profile for name in names for profile in self._profile(name, None, beside, ())]

    def _profile(self, name: str, place: Place | None, beside: Path, trail: tuple[Path, ...]) -> list[Located]:
        try:
            path = find_profile(name, folder=self.folder, beside=beside)
        except errors.CenoteError as problem:
            self.problems += [one.at(place) for one in problem.problems]
            return []
        if path is None:
            return []
        resolved = storage.resolved(path)
        if resolved in trail:
            circle = " → ".join(step.name for step in (*trail[trail.index(resolved) :], resolved))
            self._report(errors.INCLUDE_CYCLE, f"profiles use each other in a circle: {circle}", place)
            return []
        if not storage.is_file(path):
            self.problems += [one.at(place) for one in read_yaml(path).problems]
            return []
        root = self._part(self.with_includes(path, layer=f"profile {name}"), path, place)
        if root is None:
            return []
        if name.startswith(BUILT_IN_PACKAGES):  # their registries name code that is built in here
            root = root.holding({key: child for key, child in root.mapping.items() if key == "execution"})
        named = [*self._included_profiles(root, (*trail, resolved)), *self.profiles_of(root, (*trail, resolved))]
        return [*named, _without_profile_lists(root.without("includes"))]

    def _included_profiles(self, root: Located, trail: tuple[Path, ...]) -> list[Located]:
        """Those under `includes`, as FAST-HEP's profiles name others; an optional one need not be there."""
        found: list[Located] = []
        node = root.get("includes")
        for entry in [] if node is None or node.value is None else node.items or [node]:
            name, optional = entry.get("profile") or entry, entry.get("optional")
            if name.text is None:
                self._report(errors.BAD_VALUE, "'includes' takes names of profiles", entry.place)
                continue
            before = len(self.problems)
            beside = Path(name.place.file).parent if name.place else Path()
            found += self._profile(name.text, name.place, beside, trail)
            if optional is not None and optional.value is True:
                del self.problems[before:]
        return found

    def assignments(
        self, sets: Sequence[str], backend: str | None, strategy: str | None
    ) -> list[tuple[tuple[str, ...], Located]]:
        """Everything the command line sets, as keys and values."""
        found = []
        for assignment in sets:
            try:
                found.append(parse_assignment(assignment))
            except errors.CenoteError as refused:
                self.problems += refused.problems
        for key, given in (("backend", backend), ("strategy", strategy)):
            if given is not None:
                found.append((("execution", key), Located(given, LAYER)))
        return found

    def assigned(self, root: Located, steps: tuple[str, ...], value: Located) -> Located:
        """The document with one assignment carried out, or unchanged and a problem."""
        try:
            return assign(root, steps, value)
        except errors.CenoteError as refused:
            self.problems += refused.problems
            return root

    def _texts(self, node: Located | None, key: str) -> list[Located]:
        """The names under a key that takes one or several."""
        if node is None or node.value is None:
            return []
        names = node.items if isinstance(node.value, list) else [node]
        for name in names:
            if name.text is None:
                self._report(errors.BAD_VALUE, f"'{key}' takes a name or a list of names", name.place)
        return [name for name in names if name.text is not None]

    def _report(self, kind: errors.ErrorKind, message: str, place: Place | None) -> None:
        self.problems.append(Problem(kind, message, place=place))
