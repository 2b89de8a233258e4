"""The environment `shared-prefix`, which is `shared` under another name."""

from __future__ import annotations

from typing import ClassVar

from cenote.execution.environments.shared_prefix import SharedPrefix

from .test_environment_shared import TestShared


class TestSharedPrefix(TestShared):
    plugin: ClassVar = SharedPrefix


del TestShared  # it is tried in its own file
