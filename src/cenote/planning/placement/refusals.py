"""Word the refusals: why no pool will ever run a stage, and the edit that would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from cenote.common.errors import BAD_VALUE, NEVER_FITS, UNKNOWN_POOL, Place, Problem
from cenote.common.text import did_you_mean, format_amount, listed
from cenote.common.values import dataclass
from cenote.language.execution import AMOUNTS
from cenote.language.workflow import Stage, Workflow
from cenote.planning.placement.pools import StagePlacement, amount, lacking, share, unstated
from cenote.planning.placement.routes import Labels, Route
from cenote.planning.placement.sizing import Sized

_MOST_POOLS_LISTED = 12
_VERBS = {"require": "requires", "prefer": "prefers", "fallback": "falls back to", "pool": "names"}


@dataclass(frozen=True)
class Refusals:
    """Everything needed to explain a refusal."""

    workflow: Workflow
    labels: Labels
    sizes: Mapping[str, Sized]

    def of_names(self) -> Iterator[Problem]:
        """Names in `execution` itself that no pool answers to: the defaults, and the pools' own fallbacks."""
        execution = self.workflow.execution
        for kind, name in (("cpu", execution.defaults.cpu), ("gpu", execution.defaults.gpu)):
            if name is not None and name not in self.sizes:
                place = self.workflow.place("execution", "defaults", kind)
                yield self._no_such_pool(name, f"the default {kind.upper()} pool", place)
        for pool in execution.pools:
            for i, name in enumerate(pool.fallback):
                if name not in self.labels.pools_by_label:
                    place = self.workflow.place(*pool.path, "fallback", i)
                    yield self._no_such_pool(name, f"to which pool '{pool.name}' falls back", place)

    def of_stage(self, stage: Stage, route: Route, placement: StagePlacement) -> Iterator[Problem]:
        """Why this stage can never run, where it was written."""
        if route.unknown:
            for key, name in route.unknown:
                yield self._unknown_label(stage, key, name)
        elif not route.allowed:
            yield self._no_pool_provides_all(stage)
        else:
            yield self._nothing_fits(stage, route, placement)

    def of_stages_without_default(self, stages: Sequence[Stage], *, gpu: bool) -> Iterator[Problem]:
        """Stages name no pool and nothing says which is meant. (A default that does not exist is reported as that.)"""
        execution = self.workflow.execution
        if (execution.defaults.gpu if gpu else execution.defaults.cpu) is not None:
            return
        names = [pool.name for pool in execution.pools if not gpu or pool.resources.gpus]
        if not names:
            yield self._no_gpus(stages[0])
            return
        kind = "gpu" if gpu else "cpu"
        others = f" (and {len(stages) - 1} more)" if len(stages) > 1 else ""
        yield Problem(
            kind=UNKNOWN_POOL,
            message=f"stage '{stages[0].id}'{others} names no pool, and no pool is marked as the default "
            f"{kind.upper()} pool",
            place=self._place(stages[0]),
            details=(f"pools to choose from: {listed(names)}",),
            hint=f"write `execution: {{defaults: {{{kind}: {names[0]}}}}}`"
            + ("" if gpu else ", or call one of the pools `default`"),
        )

    def of_fallback(self, stage: Stage, route: Route) -> Iterator[Problem]:
        """A fallback that `require` or `pool` forbids, so that it is not relied on."""
        asked = stage.requirement
        if not asked.fallback or route.unknown or (asked.pool is None and not asked.labels):
            return
        lost = [name for name in asked.fallback if not set(self.labels.named(name)) <= set(route.allowed)]
        key, value = ("pool", asked.pool) if asked.pool is not None else ("require", ", ".join(asked.labels))
        if lost:
            yield Problem(
                kind=BAD_VALUE,
                message=f"stage '{stage.id}' can never fall back to '{lost[0]}': `{key}: {value}` allows no other pool",
                place=self._place(stage, "fallback"),
                hint=f"write `prefer: {value}` instead of `{key}: {value}`",
            )

    def _place(self, stage: Stage, *keys: str | int) -> Place | None:
        return self.workflow.place(*(stage.requirement.path or (*stage.path, "execution")), *keys)

    def _no_such_pool(self, name: str, role: str, place: Place | None) -> Problem:
        return Problem(
            kind=UNKNOWN_POOL,
            message=f"there is no pool '{name}', {role}",
            place=place,
            details=(f"pools in this file: {listed(self.sizes)}",),
            hint=did_you_mean(name, self.sizes)
            or f"define it under execution.pools, or name one of {listed(self.sizes)}",
        )

    def _no_gpus(self, stage: Stage) -> Problem:
        return Problem(
            kind=NEVER_FITS,
            message=f"stage '{stage.id}' asks for {format_amount(stage.requirement.amounts.gpus or 0, 'gpus')}, "
            "and no pool has any",
            place=self._place(stage, "resources", "gpus"),
            details=(f"pools in this file: {listed(self.sizes)}",),
            hint="give a pool GPUs: `resources: {gpus: 1}`",
        )

    def _unknown_label(self, stage: Stage, key: str, name: str) -> Problem:
        labels = self.labels.pools_by_label
        details = [f"pools in this file: {listed(self.sizes)}"]
        if further := labels.keys() - self.sizes.keys():
            details.append(f"further labels: {listed(further)}")
        if key == "pool" and name in labels:
            hint: str | None = f"'{name}' is a label: write `require: {name}`"
        else:
            hint = _meant(name, tuple(self.sizes if key == "pool" else labels))
        names = {"require": stage.requirement.labels, "fallback": stage.requirement.fallback}.get(key)
        missing = f"there is no pool '{name}'" if key == "pool" else f"no pool provides '{name}'"
        return Problem(
            kind=UNKNOWN_POOL,
            message=f"{missing}, which stage '{stage.id}' {_VERBS[key]}",
            place=self._place(stage, key, names.index(name)) if names else self._place(stage, key),
            details=tuple(details),
            hint=hint or f"add a pool called '{name}', or `provides: [{name}]` to one of these",
        )

    def _no_pool_provides_all(self, stage: Stage) -> Problem:
        wanted = set(stage.requirement.labels)
        named = [stage.requirement.pool] if stage.requirement.pool is not None else list(self.sizes)
        partly = [name for name in named if self.sizes[name].pool.labels & wanted] or named
        return Problem(
            kind=UNKNOWN_POOL,
            message=f"no pool provides everything that stage '{stage.id}' requires: {listed(wanted)}",
            place=self._place(stage, "require"),
            details=_cut([f"pool '{name}' lacks {listed(wanted - self.sizes[name].pool.labels)}" for name in partly]),
            hint=f"add the missing label to `provides` of pool '{partly[0]}', or remove a requirement",
        )

    def _nothing_fits(self, stage: Stage, route: Route, placement: StagePlacement) -> Problem:
        asked = stage.requirement.amounts
        kinds = next((found for name in route.allowed if (found := lacking(self.sizes[name].share, asked))), [])
        reasons = {candidate.pool: candidate.reason for candidate in placement.considered}
        details = [f"pool '{name}' {reasons[name]}" for name in route.allowed[: _MOST_POOLS_LISTED + 1]]
        if not kinds:
            return self._never_a_worker(stage, route, details)
        wanted = format_amount(amount(asked, kinds[0]) or 0, kinds[0])
        return Problem(
            kind=NEVER_FITS,
            message=f"no worker that stage '{stage.id}' may use has {wanted} for one task",
            place=self._place(stage, "resources", kinds[0]),
            details=(*_cut(details), self._largest(kinds[0])),
            hint=self._edit(stage, route, wanted),
        )

    def _never_a_worker(self, stage: Stage, route: Route, details: Sequence[str]) -> Problem:
        one = len(route.allowed) == 1
        pools = f"pool '{route.allowed[0]}', which never has" if one else f"{listed(route.allowed)}, which never have"
        return Problem(
            kind=NEVER_FITS,
            message=f"stage '{stage.id}' can only run in {pools} a worker",
            place=self._place(stage, next((k for k in ("pool", "prefer") if getattr(stage.requirement, k)), "require")),
            details=_cut(details),
            hint=f"give pool '{route.allowed[0]}' workers, or `elastic: {{min: 0, max: 4}}`",
        )

    def _edit(self, stage: Stage, route: Route, wanted: str) -> str:
        """The smallest change that makes the stage fit."""
        asked = stage.requirement.amounts
        for size in (self.sizes[name] for name in route.allowed):
            if not size.empty and not lacking(share(size.worker, 1), asked):
                slots = max(n for n in range(1, size.slots) if not lacking(share(size.worker, n), asked))
                return f"write `slots: {slots}` for pool '{size.pool.name}', whose worker is large enough undivided"
        for name, size in self.sizes.items():
            if not size.empty and not lacking(size.largest_share, asked) and not unstated(size.worker, asked):
                return (
                    f"write `{'pool' if stage.requirement.pool is not None else 'require'}: {name}`, which has enough"
                )
        return f"give pool '{route.allowed[0]}' at least {wanted} per slot, or let the stage ask for less"

    def _largest(self, kind: str) -> str:
        held = {
            name: size.largest_share[AMOUNTS.index(kind)] if amount(size.worker, kind) else 0.0
            for name, size in self.sizes.items()
        }
        name = max(held, key=lambda name: held[name])
        return f"the largest is '{name}' with {format_amount(held[name], kind)}" if held[name] else "no pool has any"


@lru_cache(maxsize=100)
def _meant(name: str, known: tuple[str, ...]) -> str | None:
    """As `did_you_mean`, for a slip that thousands of stages share."""
    return did_you_mean(name, known)


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(lines) if len(lines) <= _MOST_POOLS_LISTED else (*lines[:_MOST_POOLS_LISTED], "… and more")
