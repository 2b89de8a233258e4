"""The environment `packed-venv`, which needs a virtual environment to pack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.virtual_environments import bare_venv
from cenote.execution.environments.packed_venv import PackedVenv
from cenote.testing.contracts import EnvironmentContract


class TestPackedVenv(EnvironmentContract):
    plugin: ClassVar = PackedVenv

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        return {**super().settings_in(example), "prefix": str(bare_venv())}

    @pytest.fixture(autouse=True)
    def own_stock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest, tmp_path: Path) -> PackedVenv:
        return PackedVenv.model_validate({**request.param, "scratch": str(tmp_path / "node")})
