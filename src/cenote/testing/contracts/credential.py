"""Check credentials: they go along as files that only their owner reads, and say in time when they end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cenote.credentials.interface import Credential
from cenote.errors import Problem
from cenote.testing.contracts.environment import assert_kept
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.launches import a_launch


class CredentialContract(PluginContract):
    """`plugin` is the credential; `cases` are settings with which it finds one."""

    plugin: ClassVar[type[Credential]]

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The keys beside `type`."""
        found = example["execution"]["credentials"]
        first = found[0] if isinstance(found, list) else found
        return {key: value for key, value in first.items() if key != "type"} if isinstance(first, dict) else {}

    def test_it_completes_a_launch_and_keeps_what_was_there(self, made: Credential, tmp_path: Path) -> None:
        before = a_launch("python3", "-c", "pass", folder=tmp_path, variables={"GREETING": "hello"})
        after = made.complete(before)
        assert_kept(before, after)
        assert (after.interpreter, after.command) == (before.interpreter, before.command)

    def test_its_contents_go_along_in_files_that_only_their_owner_reads(self, made: Credential, tmp_path: Path) -> None:
        before = a_launch("python3", folder=tmp_path)
        after = made.complete(before)
        written = f"{after.variables} {after.setup} {after.command}"
        for file in set(after.files) - set(before.files):
            assert file.mode == 0o600
            content = file.source.read_text(errors="replace").strip()
            assert not content or content not in written

    def test_one_that_has_ended_is_a_problem(self, made: Credential) -> None:
        ends = made.expires()
        if ends is not None:
            assert math.isfinite(ends)
            assert all(isinstance(problem, Problem) for problem in made.check(ends + 1.0))
            assert list(made.check(ends + 1.0))
