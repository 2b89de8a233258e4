"""The environment `shared`, which needs a prefix that is here."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import pytest

from cenote.execution.environments.shared import SharedEnvironment
from cenote.testing.contracts import EnvironmentContract


class TestShared(EnvironmentContract):
    plugin: ClassVar = SharedEnvironment

    def settings_in(self, example: Any) -> dict[str, Any]:
        return {**super().settings_in(example), "prefix": sys.prefix}

    @pytest.fixture(autouse=True)
    def own_stock(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path_factory.mktemp("cache")))

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
        return self.plugin.model_validate({**request.param, "scratch": str(tmp_path_factory.mktemp("node"))})
