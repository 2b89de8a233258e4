"""Check the file of a site by itself, pool profiles included, and freeze what it gives."""

from __future__ import annotations

from pathlib import Path

from cenote.common.errors import UNKNOWN_POOL, Problem, unique
from cenote.common.values import dataclass
from cenote.language.checks.document import check_surroundings
from cenote.language.checks.execution import check_execution
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.execution import Pool
from cenote.language.layers.compose import Layered, built_in, read_site
from cenote.language.layers.profiles import fill_pools
from cenote.language.layers.site import is_site_layer
from cenote.language.schema.document import SiteModel
from cenote.language.workflow import Execution
from cenote.language.yaml.source import Located


@dataclass(frozen=True)
class Site:
    """What the file of a site gives, over what is built in."""

    file: Path | None
    """None: what holds where there is no site."""
    about: SiteModel | None
    execution: Execution
    """Its defaults."""
    chosen: frozenset[str]
    """Keys of `execution` that the file has."""
    profiles: tuple[Pool, ...]
    """Pool profiles, each as the pool would be that takes it and says nothing more."""
    own_profiles: frozenset[str]
    """Names of those that the file has; the others are built in."""


@dataclass(frozen=True)
class CheckedSite:
    """A site, or what is wrong with its file."""

    site: Site | None
    problems: tuple[Problem, ...] = ()
    root: Located | None = None
    """What could be read."""


def check_site(file: Path | None) -> CheckedSite:
    """Read and check the file of a site. Never raises for what is written there."""
    layered = read_site(file) if file is not None else Layered(built_in(), ())
    if layered.root is None:
        return CheckedSite(None, tuple(unique(layered.problems)))
    root, findings = layered.root, Findings(list(layered.problems))
    execution = check_surroundings(fill_pools(root, findings.problems), (file or Path()).parent, findings)
    about = _about(root, findings) if file is not None else None
    profiles = _profiles_as_pools(root, findings)
    if findings.problems:
        return CheckedSite(None, tuple(unique(findings.problems)), root)
    written = root.get("execution")
    defined = root.get("pool_profiles")
    return CheckedSite(
        Site(
            file=file,
            about=about,
            execution=execution,
            chosen=frozenset(written.mapping if written else ()),
            profiles=profiles,
            own_profiles=frozenset(
                name for name, profile in (defined.mapping if defined else {}).items() if is_site_layer(profile.layer)
            ),
        )
    )


def _about(root: Located, findings: Findings) -> SiteModel | None:
    """Who it is; a file of a site has to say so, because values are explained by where they come from."""
    node = root.get("site")
    if node is None or node.value is None:
        findings.missing("site", "the site configuration file", root)
        return None
    return validated(SiteModel, node, "'site'", Findings())  # what is wrong with it was noted with the top level


def _profiles_as_pools(root: Located, findings: Findings) -> tuple[Pool, ...]:
    """Pool profiles are checked as pools, settings of their strategies too, though no pool may use them yet."""
    known, execution = root.get("pool_profiles"), root.get("execution") or Located({}, "built-in")
    pools = {
        name: profile.holding({"use": Located(name, profile.layer, profile.key_place)})
        for name, profile in (known.mapping if known else {}).items()
    }
    taken = {**execution.without("defaults").mapping, "pools": Located(pools, execution.layer)}
    further = Findings()
    filled = fill_pools(root.holding({**root.mapping, "execution": execution.holding(taken)}), further.problems)
    checked = check_execution(filled.without("pool_profiles"), further)
    reported = {problem.place for problem in findings.problems}
    # Their fallbacks are pools of the workflow to come.
    findings.problems += [p for p in further.problems if p.kind is not UNKNOWN_POOL and p.place not in reported]
    return checked.pools if pools else ()
