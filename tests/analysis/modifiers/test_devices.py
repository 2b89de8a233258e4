"""Every device keeps the contract; a real one is tried where there is one."""

from __future__ import annotations

import pytest

from cenote.analysis.modifiers.support.devices import Device, NoDevice, find_device
from cenote.testing.contracts import DeviceContract
from cenote.testing.stand_in_device import StandInDevice


class TestStandIn(DeviceContract):
    def make(self) -> Device:
        return StandInDevice()


@pytest.mark.gpu
class TestCuda(DeviceContract):
    def make(self) -> Device:
        found = find_device()
        if isinstance(found, NoDevice):
            pytest.skip(found.reason)
        return found


def test_no_gpu_is_explained_by_what_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from cenote.analysis.modifiers.support import devices

    monkeypatch.delenv(devices.SIMULATOR, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.missing_gpu() == NoDevice("CUDA_VISIBLE_DEVICES=-1 shows none")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert devices.missing_gpu() is None
    monkeypatch.setenv(devices.SIMULATOR, "1")
    assert devices.missing_gpu() == NoDevice("NUMBA_ENABLE_CUDASIM=1 asks for a simulated one")
