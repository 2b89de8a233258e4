"""Check devices: columns come back as they went, and it is known where they are."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.modifiers.support.devices import Device
from cenote.testing.sample_events import same_column

COLUMNS: dict[str, Any] = {
    "float32": np.linspace(0, 1, 7, dtype=np.float32),
    "float64": np.array([1.5, np.nan, -0.0, np.inf]),
    "int64": np.arange(5) - 2,
    "bool": np.array([True, False, True]),
    "nothing": np.zeros(0, dtype=np.float32),
    "lists": ak.Array([[1.0, 2.0], [], [3.0]]),
    "a slice of lists": ak.Array([[1.0, 2.0], [], [3.0], [4.0, 5.0]])[1:3],
    "lists of lists": ak.Array([[[1, 2], []], [], [[3]]]),
    "missing values": ak.Array([1.0, None, 3.0]),
    "records": ak.zip({"pt": ak.Array([[1.0], [2.0, 3.0]]), "eta": ak.Array([[0.1], [0.2, 0.3]])}),
    "no lists at all": ak.Array([[1.0]])[:0],
}


class DeviceContract:
    """`make` gives the device."""

    def make(self) -> Device:
        """A device that can be used here."""
        raise NotImplementedError

    @pytest.mark.parametrize("kind", COLUMNS)
    def test_columns_come_back_as_they_went(self, kind: str) -> None:
        device, column = self.make(), COLUMNS[kind]
        there = device.to_device(column)
        back = device.to_host(there)
        assert (device.holds(column), device.holds(there), device.holds(back)) == (False, True, False)
        if isinstance(column, np.ndarray):
            assert back.dtype == column.dtype
            np.testing.assert_array_equal(back, column)
        else:
            assert same_column(ak.to_packed(back), ak.to_packed(column))

    def test_a_copy_is_a_copy(self) -> None:
        device, column = self.make(), np.arange(4.0)
        there = device.to_device(column)
        column[0] = 100.0
        assert device.to_host(there)[0] == 0.0

    def test_arithmetic_there_stays_there(self) -> None:
        device = self.make()
        for column in (np.arange(4.0), ak.Array([[1.0], [], [2.0, 3.0]])):
            computed = np.sqrt(device.to_device(column)) + 1
            assert device.holds(computed)
            assert ak.to_list(device.to_host(computed)) == ak.to_list(np.sqrt(column) + 1)

    def test_text_has_no_place_there(self) -> None:
        with pytest.raises(TypeError, match="GPU"):
            self.make().to_device(np.array(["a", "b"]))

    def test_its_memory_is_known(self) -> None:
        assert self.make().free_memory() > 0
        assert self.make().name
