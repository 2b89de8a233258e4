"""A service and a pool of two workers, which the tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.ended_services import end_service
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.pool_handle import PoolHandle


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("CENOTE_SERVICE", raising=False)
        with connect() as made:
            pid = made.service.pid
            yield made
        end_service(ServiceHome(usual_home()), pid)


@pytest.fixture(scope="module")
def pool(connection: Connection) -> Iterator[PoolHandle]:
    with connection.create_pool("pool", "local", 2) as made:
        yield made


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder in which calls say that they were made."""
    found = tmp_path / "marks"
    found.mkdir()
    return found
