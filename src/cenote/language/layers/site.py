"""Find the file of a site, and say what of it holds for a workflow: what is closer to the run wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.errors import Problem, unique
from cenote.language.yaml.source import Located, read_yaml

VARIABLE = "CENOTE_SITE"
NO_SITE = "none"
"""The value of the variable that leaves the site out."""
LAYER = "site"
KEYS = ("version", "include", "site", "execution", "pool_profiles", "styles", "plugins", "registry")
"""What a site may say: where things run and how they look, never what is computed."""


def site_places() -> list[tuple[str, Path | None]]:
    """Where it is looked for, in words and as a path: the first that is there counts, and nothing but the variable
    where that is set. The path is None for a variable that is not set, or leaves the site out."""
    named = os.environ.get(VARIABLE, "")
    if named == NO_SITE:
        return [(f"${VARIABLE} is '{NO_SITE}': no site", None)]
    if named:
        return [(f"${VARIABLE} ({named})", storage.expanded(named))]
    own = storage.expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "cenote" / "site.yaml"
    shared = Path("/etc/cenote/site.yaml")
    return [(f"${VARIABLE} (not set)", None), (str(own), own), (str(shared), shared)]


def find_site() -> Path | None:
    """The file of the site; None where there is none. A file that the variable names counts even if it is missing."""
    paths = [path for _, path in site_places() if path is not None]
    if os.environ.get(VARIABLE):
        return next(iter(paths), None)
    return next((path for path in paths if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as problem:  # an unreadable home folder: whether the site says something there is not known
        words = (problem.strerror or str(problem)).lower()
        hint = f"make it readable, or set {VARIABLE}={NO_SITE} to ignore the site configuration"
        kind = storage.KINDS.get(problem.errno or 0, errors.NO_ACCESS)
        raise errors.error(kind, f"{path}: {words}", hint=hint) from problem


def layer_of(path: Path) -> str:
    """How origins call it: `site (desy)`."""
    root = read_yaml(path).root
    name = root.get("site", "name") if root is not None else None
    return f"{LAYER} ({name.text})" if name is not None and name.text else LAYER


def is_site_layer(layer: str) -> bool:
    """Whether a value was written by the site."""
    return layer == LAYER or layer.startswith(f"{LAYER} (")


def what_holds(site: Located, above: Sequence[Located], *, here: bool) -> Located:
    """The site's document without what those above it have decided as a whole.

    Its pools are for workflows that have none. With `here`, a layer asks for a run on this machine: then it does not
    say where workers come from.
    """
    execution = site.get("execution")
    if execution is not None and any(_has_pools(layer) for layer in above):
        site = site.holding({**site.mapping, "execution": execution.without("pools", "defaults")})
    return _without_elsewhere(site) if here else site


def _has_pools(layer: Located) -> bool:
    pools = layer.get("execution", "pools")
    return pools is not None and bool(pools.mapping)


def _without_elsewhere(site: Located) -> Located:
    parts = dict(site.mapping)
    if (execution := site.get("execution")) is not None:
        kept = execution.without("backend", "strategy")
        if (pools := kept.get("pools")) is not None:
            kept = kept.holding({**kept.mapping, "pools": _without_strategies(pools)})
        parts["execution"] = kept
    if (profiles := site.get("pool_profiles")) is not None:
        parts["pool_profiles"] = _without_strategies(profiles)
    return site.holding(parts)


def _without_strategies(pools: Located) -> Located:
    if not pools.mapping:
        return pools
    return pools.holding(
        {name: pool.without("strategy") if pool.mapping else pool for name, pool in pools.mapping.items()}
    )


def explained(problems: Sequence[Problem], site: Path | None, root: Located | None) -> list[Problem]:
    """Problems in order; the last of the site's file says whose it is and whom to contact: the author cannot fix it."""
    ordered = list(unique(problems))
    of_site = [number for number, problem in enumerate(ordered) if site is not None and _is_about(problem, site)]
    if of_site:
        contact = root.get("site", "contact") if root is not None else None
        whom = f"report it to {contact.text}, or " if contact is not None and contact.text else ""
        word = f"this is your site's configuration file: {whom}ignore it with {VARIABLE}={NO_SITE}"
        last = ordered[of_site[-1]]
        ordered[of_site[-1]] = replace(last, details=(*last.details, word))
    return ordered


def _is_about(problem: Problem, file: Path) -> bool:
    """Whether it stands in this file, or is that the file cannot be read."""
    return problem.place.file == str(file) if problem.place else problem.message.startswith(f"{file} ")
