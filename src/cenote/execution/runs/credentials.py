"""Make the credentials that a workflow names, once each, and say which pool has which."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from cenote.common.credential_files.places import LATEST
from cenote.common.errors import BAD_CREDENTIAL, CenoteError, Place, Problem, unique
from cenote.common.values import dataclass
from cenote.execution.credentials.interface import Credential, CredentialFacts
from cenote.execution.worker.process.credentials import DeliveredCredential, keep_credentials, variables_set
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import runs_here
from cenote.language.workflow import Workflow


@dataclass(frozen=True)
class NamedCredential:
    """A credential, and how the workflow names it. What a plugin raises is blamed on the plugin."""

    type: str
    credential: Credential
    place: Place | None
    """Where the file names it."""

    def check(self, now: float) -> list[Problem]:
        """What is wrong with it now, placed in the file."""
        with registry.blamed(PluginKind.CREDENTIAL, self.type):
            return [problem.at(self.place) for problem in self.credential.check(now)]

    def facts(self) -> CredentialFacts | None:
        """What may be shown of it."""
        with registry.blamed(PluginKind.CREDENTIAL, self.type):
            found = self.credential.facts()
            return None if found is None else _sound(found)

    def renew(self) -> None:
        """Get a new one. Raises CenoteError or OSError."""
        with registry.blamed(PluginKind.CREDENTIAL, self.type):
            self.credential.renew()

    def renewal_problems(self) -> list[Problem]:
        """Get a new one; what went wrong, placed in the file."""
        try:
            self.renew()
        except CenoteError as failed:
            return [problem.at(self.place) for problem in failed.problems]
        except OSError as failed:
            words = f"the credential '{self.type}' could not be renewed: {failed.strerror or failed}"
            return [Problem(BAD_CREDENTIAL, words, place=self.place)]
        return []

    def delivered(self) -> DeliveredCredential | None:
        """As workers get it; None where there is nothing to send. Raises OSError where it cannot be read."""
        with registry.blamed(PluginKind.CREDENTIAL, self.type):
            content = self.credential.read()
            if not isinstance(content, bytes | None):
                raise TypeError("`read` returns neither bytes nor None")
        return None if content is None else DeliveredCredential(self.type, content, self.variables())

    def variables(self) -> dict[str, str | None]:
        """The environment variables by which software finds it."""
        with registry.blamed(PluginKind.CREDENTIAL, self.type):
            found = msgspec.convert(self.credential.variables(), dict[str, str | None])
            if any(not name or "=" in name or "\0" in f"{name}{value}" for name, value in found.items()):
                raise ValueError("`variables` returns a name or a value that no variable can have")
            return found


class RunCredentials:
    """The credentials of the run and of its pools: those that tasks really get.

    A backend that runs everything here has one list for all pools: the run's.
    """

    def __init__(self, workflow: Workflow) -> None:
        execution = workflow.execution
        one_for_all = runs_here(execution.backend)
        made: dict[str, NamedCredential] = {}
        self._of: dict[str, tuple[NamedCredential, ...]] = {}
        for pool in ("", *(pool.name for pool in execution.pools)):
            whose = "" if one_for_all else pool
            self._of[pool] = tuple(
                _named(spec, _place(workflow, whose, number), made)
                for number, spec in enumerate(execution.credentials_of(whose))
                if _is_here(spec)
            )

    def of(self, pool: str) -> tuple[NamedCredential, ...]:
        """Those of a pool; those of the run where the name is empty."""
        return self._of.get(pool, self._of[""])

    def delivered_to(self, pool: str) -> list[DeliveredCredential]:
        """What workers of a pool get. Raises OSError where one cannot be read."""
        found = (one.delivered() for one in self.of(pool))
        return [one for one in found if one is not None]

    @property
    def all(self) -> tuple[NamedCredential, ...]:
        """Each once, those of the run first."""
        return tuple({id(one): one for several in self._of.values() for one in several}.values())

    def problems(self, now: float) -> Sequence[Problem]:
        """Everything that is wrong with any of them."""
        return unique(problem for one in self.all for problem in one.check(now))

    def make_usable(self, clock: Callable[[], float]) -> None:
        """Renew those that are of no use and can be renewed; raise what is wrong then."""
        problems: list[Problem] = []
        for one in self.all:
            if one.credential.renews and one.check(clock()):
                problems += one.renewal_problems()
            problems += one.check(clock())
        if problems:
            raise CenoteError(problems)

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """Let this process, and those that it starts, read protected data: the first credential of each type counts.

        One that is in a variable moves to a private file meanwhile: children would inherit the variable, and batch
        systems write it down.
        """
        with ExitStack() as at_last:
            for one in {one.type: one for one in reversed(self.all)}.values():
                facts = one.facts()
                if facts is None:
                    continue
                if Path(facts.found).is_absolute():
                    at_last.enter_context(variables_set(one.variables(), facts.found))
                    continue
                delivered = one.delivered()
                if delivered is not None:
                    folder = at_last.enter_context(tempfile.TemporaryDirectory(prefix="cenote-"))  # mode 0700
                    at_last.enter_context(variables_set(dict.fromkeys(delivered.variables), ""))
                    keep_credentials([delivered], Path(folder))
            yield


def _sound(facts: CredentialFacts) -> CredentialFacts:
    """As they should be: those of a plugin may hold anything. Raises ValueError."""
    sound = msgspec.convert(vars(facts), CredentialFacts)
    if any(at is not None and not abs(at) < LATEST for at in (sound.begins, sound.ends)):
        raise ValueError("`facts` returns a time that is not in seconds since the epoch")
    return sound


def _place(workflow: Workflow, pool: str, number: int) -> Place | None:
    """Where the file names a credential of a pool, or of the run."""
    own = ("execution", "pools", pool, "credentials")
    listed = own if workflow.origin(*own) is not None else ("execution", "credentials")
    return workflow.place(*listed, number)


def _is_here(spec: Mapping[str, Any]) -> bool:
    """What is only planned is left out: where that matters, the workflow was refused."""
    return not registry.is_planned(PluginKind.CREDENTIAL, spec["type"])


def _named(spec: Mapping[str, Any], place: Place | None, made: dict[str, NamedCredential]) -> NamedCredential:
    key = repr(sorted(spec.items()))
    if key not in made:
        made[key] = NamedCredential(spec["type"], registry.make_typed(PluginKind.CREDENTIAL, spec), place)
    return made[key]
