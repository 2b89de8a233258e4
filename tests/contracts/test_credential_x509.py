"""Apply the contract of credentials to proxies, with one to find."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from builders.credentials import GridAuthority
from cenote.execution.credentials.x509 import X509Proxy
from cenote.testing.contracts import CredentialContract


class TestX509(CredentialContract):
    plugin: ClassVar = X509Proxy
    cases: ClassVar = [{}, {"variable": "MY_PROXY"}]

    @pytest.fixture(autouse=True)
    def _a_proxy(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        authority = GridAuthority(tmp_path_factory.mktemp("authority"))
        proxy: Path = authority.proxy(voms="/cms/Role=NULL")
        monkeypatch.setenv("X509_CERT_DIR", str(authority.directory))
        for variable in ("X509_USER_PROXY", "MY_PROXY"):
            monkeypatch.setenv(variable, str(proxy))
