"""The environment `packed-pixi`, which needs a lock to pack from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.conda_channel import pixi_project
from cenote.execution.environments.packed_pixi import PackedPixi
from cenote.testing.contracts import EnvironmentContract


class TestPackedPixi(EnvironmentContract):
    plugin: ClassVar = PackedPixi

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        return {**super().settings_in(example), "environment": "python"}

    @pytest.fixture(autouse=True)
    def own_stock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest, tmp_path: Path) -> PackedPixi:
        project = pixi_project(tmp_path / "project")
        return PackedPixi.model_validate({**request.param, "scratch": str(tmp_path / "node")}).beside(project.folder)
