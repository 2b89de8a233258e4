"""A service of its own for each test that asks for one, ended by its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.ended_services import end_service
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.start import answering


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceHome]:
    """Where the user's own service has its folder; whatever runs there afterwards is stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CENOTE_SERVICE", raising=False)
    found = ServiceHome(usual_home())
    yield found
    if answering(found) is None:
        return
    pid = connect(start=False).service.pid
    end_service(found, pid)


@pytest.fixture
def connection(home: ServiceHome) -> Iterator[Connection]:
    """To a private service that is started for this."""
    assert not home.path.exists()
    with connect() as made:
        yield made
