"""Check credentials: they show facts, hand out contents only to be sent, and say in time when they end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cenote.common.errors import Problem
from cenote.execution.credentials.interface import Credential
from cenote.execution.worker.process.credentials import DeliveredCredential, keep_credentials, variables_set
from cenote.testing.contracts.plugin import PluginContract


class CredentialContract(PluginContract):
    """`plugin` is the credential; `cases` are settings with which it finds one."""

    plugin: ClassVar[type[Credential]]

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The keys beside `type`."""
        found = example["execution"]["credentials"]
        first = found[0] if isinstance(found, list) else found
        return {key: value for key, value in first.items() if key != "type"} if isinstance(first, dict) else {}

    def test_its_contents_are_in_nothing_that_is_shown(self, made: Credential) -> None:
        content = (made.read() or b"").decode(errors="replace").strip()
        problems = [*made.check(time.time()), *made.check(0.0), *made.check(4e9)]
        shown = f"{made!r} {made} {made.facts()!r} {made.variables()!r} {problems!r}"
        assert all(isinstance(problem, Problem) for problem in problems)
        assert not any(line in shown for line in content.splitlines() if len(line) > 8)

    def test_its_variables_lead_to_a_private_file(self, made: Credential, tmp_path: Path) -> None:
        content, variables = made.read(), made.variables()
        if content is None:
            assert not variables
            return
        with variables_set(dict.fromkeys(variables), ""):
            keep_credentials([DeliveredCredential("example", content, dict(variables))], tmp_path)
            (file,) = [file for file in tmp_path.rglob("*") if file.is_file()]
            assert (file.read_bytes(), file.stat().st_mode & 0o777) == (content, 0o600)

    def test_one_that_has_ended_is_a_problem(self, made: Credential) -> None:
        facts = made.facts()
        if facts is not None and facts.ends is not None:
            assert math.isfinite(facts.ends)
            assert list(made.check(facts.ends + 1.0))
