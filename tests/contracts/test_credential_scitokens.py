"""Apply the contract of credentials to tokens, with one to find."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from builders.credentials import TokenIssuer, write_token
from cenote.execution.credentials.scitokens import BearerToken
from cenote.testing.contracts import CredentialContract


class TestSciTokens(CredentialContract):
    plugin: ClassVar = BearerToken
    cases: ClassVar = [{}, {"variable": "TOKEN_FILE"}]

    @pytest.fixture(autouse=True)
    def _a_token(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        token = TokenIssuer("https://127.0.0.1:1").token()  # nothing listens there
        file: Path = write_token(tmp_path_factory.mktemp("token") / "token", token)
        monkeypatch.setenv("BEARER_TOKEN", token)
        monkeypatch.setenv("TOKEN_FILE", str(file))
