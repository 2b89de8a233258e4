"""Prove that a plugin keeps the promises of its kind: derive a pytest class from the contract, and name the plugin.

from cenote.testing.contracts import OperationContract

class TestClamp(OperationContract):
    plugin = Clamp
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# Before they are imported, so that failures show their values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from cenote.testing.contracts.backend import BackendContract  # noqa: E402
from cenote.testing.contracts.credential import CredentialContract  # noqa: E402
from cenote.testing.contracts.device import DeviceContract  # noqa: E402
from cenote.testing.contracts.environment import EnvironmentContract  # noqa: E402
from cenote.testing.contracts.modifier import ModifierContract  # noqa: E402
from cenote.testing.contracts.operation import OperationContract  # noqa: E402
from cenote.testing.contracts.plugin import PluginContract  # noqa: E402
from cenote.testing.contracts.product import ProductContract  # noqa: E402
from cenote.testing.contracts.renderer import RendererContract  # noqa: E402
from cenote.testing.contracts.sink import SinkContract  # noqa: E402
from cenote.testing.contracts.source import SourceContract  # noqa: E402
from cenote.testing.contracts.strategy import BatchScript, StrategyContract  # noqa: E402

__all__ = [
    "BackendContract",
    "BatchScript",
    "CredentialContract",
    "DeviceContract",
    "EnvironmentContract",
    "ModifierContract",
    "OperationContract",
    "PluginContract",
    "ProductContract",
    "RendererContract",
    "SinkContract",
    "SourceContract",
    "StrategyContract",
]
