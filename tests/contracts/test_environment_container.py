"""The environment `container`: this machine may have no program that runs one, so what it starts is tried in `live`."""

from __future__ import annotations

from typing import ClassVar

import pytest

from cenote.execution.environments.container import Container
from cenote.testing.contracts import EnvironmentContract


class TestContainer(EnvironmentContract):
    plugin: ClassVar = Container
    starts_here: ClassVar = False

    @pytest.fixture(autouse=True)
    def own_stock(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path_factory.mktemp("cache")))
