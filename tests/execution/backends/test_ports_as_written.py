"""Ports and addresses are read as people write them, and what is none is refused with what would be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cenote.execution.backends.dask.backend import Dask


@pytest.mark.parametrize(
    ("written", "ports"),
    [(8786, range(8786, 8787)), ("8786", range(8786, 8787)), ("20000-20002", range(20000, 20003)), (0, range(1))],
)
def test_one_port_or_a_range(written: object, ports: range) -> None:
    assert Dask.model_validate({"port": written}).port == ports


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("many", "write one port (8786) or a range (20000-20100)"),
        (True, "is not a port"),
        (-1, "is not a port"),
        (70000, "from 1 to 65535"),
        ("0-10", "from 1 to 65535"),
        ("20100-20000", "did you mean 20000-20100?"),
    ],
)
def test_what_is_no_port_is_refused(written: object, complaint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Dask.model_validate({"port": written})
    assert complaint in str(refused.value)


@pytest.mark.parametrize("address", ["driver.example", "driver.example:8786", "10.0.0.5:1", "[fe80::1]:8786"])
def test_a_contact_is_a_host_with_or_without_a_port(address: str) -> None:
    assert Dask.model_validate({"contact": address}).contact == address


@pytest.mark.parametrize("address", ["tcp://driver.example", "driver.example:", "a b", "host:99999", 8786, ""])
def test_anything_else_is_no_contact(address: object) -> None:
    with pytest.raises(ValidationError, match="is not an address"):
        Dask.model_validate({"contact": address})
