"""Test that a command renews a credential, and that its output stays unseen."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from builders.credentials import HOUR, GridAuthority
from cenote.common.errors import CenoteError
from cenote.execution.credentials.support import renewal
from cenote.execution.credentials.support.renewal import harmless_line
from cenote.execution.credentials.x509 import X509Proxy


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_replaces_the_file(authority: GridAuthority, tmp_path: Path) -> None:
    old, new = authority.proxy(tmp_path / "proxy", lifetime=60), authority.proxy(tmp_path / "next", lifetime=HOUR)
    proxy = X509Proxy(path=str(old), renew=shlex.join(["mv", str(new), str(old)]))
    assert proxy.renews
    before = proxy.facts()
    proxy.renew()
    after = proxy.facts()
    assert before is not None
    assert after is not None
    assert (after.ends or 0) > (before.ends or 0)


def test_no_shell_reads_the_command(authority: GridAuthority, tmp_path: Path) -> None:
    proxy = X509Proxy(path=str(authority.proxy()), renew=f"echo x > {tmp_path}/made; touch {tmp_path}/made")
    with pytest.raises(CenoteError):
        proxy.renew()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (python("import sys; print('out'); sys.exit('first\\nno valid certificate')"), "no valid certificate"),
        (python("pass"), "as before"),
        (["no-such-program"], "not found"),
        (python("import time; time.sleep(60)"), "within"),
    ],
)
def test_one_that_does_not_help_says_why(
    authority: GridAuthority, monkeypatch: pytest.MonkeyPatch, command: list[str], words: str
) -> None:
    monkeypatch.setattr(renewal, "_SECONDS", 5.0 if "sleep" not in command[-1] else 0.3)
    proxy = X509Proxy(path=str(authority.proxy()), renew=command)
    with pytest.raises(CenoteError) as raised:
        proxy.renew()
    assert words in str(raised.value)
    assert "out" not in str(raised.value).split()


def test_one_that_leaves_a_bad_file_says_what_is_wrong_with_it(authority: GridAuthority, tmp_path: Path) -> None:
    old, new = authority.proxy(tmp_path / "proxy"), authority.proxy(tmp_path / "next", mode=0o644)
    with pytest.raises(CenoteError, match="0644"):
        X509Proxy(path=str(old), renew=["mv", str(new), str(old)]).renew()


@pytest.mark.parametrize("written", ["", [], "'unclosed", {"a": 1}, [["a"]]])
def test_what_is_no_command_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        X509Proxy.model_validate({"renew": written})


def test_words_that_may_be_secret_are_left_out(authority: GridAuthority) -> None:
    lines = authority.proxy().read_text().splitlines()
    key = lines[lines.index("-----BEGIN RSA PRIVATE KEY-----") + 1]
    token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
    shown = harmless_line(f"other\ncannot use {token} or {key} of /home/ada/.globus/userkey.pem\n\n")
    assert shown == "cannot use … or … of /home/ada/.globus/userkey.pem"


def test_the_command_is_not_part_of_what_a_credential_shows() -> None:
    proxy = X509Proxy(renew="login --password hunter2")
    assert "hunter2" not in repr(proxy)
