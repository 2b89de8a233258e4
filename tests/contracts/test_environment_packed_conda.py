"""The environment `packed-conda`, which needs a prefix to pack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.conda_prefix import python_prefix
from cenote.execution.environments.packed_conda import PackedConda
from cenote.testing.contracts import EnvironmentContract


class TestPackedConda(EnvironmentContract):
    plugin: ClassVar = PackedConda

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        return {**super().settings_in(example), "prefix": str(python_prefix())}

    @pytest.fixture(autouse=True)
    def own_stock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest, tmp_path: Path) -> PackedConda:
        return PackedConda.model_validate({**request.param, "scratch": str(tmp_path / "node")})
