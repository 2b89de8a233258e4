"""A user with an authority that this machine trusts, and nothing in the usual places."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.credentials import GridAuthority
from cenote.common.credential_files import places


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> GridAuthority:
    return GridAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def environ(authority: GridAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing of the machine that the tests run on is looked at."""
    for name in ("X509_USER_PROXY", "BEARER_TOKEN", "BEARER_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("X509_CERT_DIR", str(authority.directory))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(places, "usual_proxy", lambda: tmp_path / "x509up")
    return monkeypatch
