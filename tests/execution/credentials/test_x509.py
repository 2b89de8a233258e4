"""Test what is found out about proxies before anything is submitted: real ones, of an own authority."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from builders.credentials import HOUR, GridAuthority, write_proxy
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, Problem
from cenote.execution.credentials.interface import FILE
from cenote.execution.credentials.x509 import X509Proxy


def problems(proxy: X509Proxy) -> list[Problem]:
    return list(proxy.check(time.time()))


def test_a_good_proxy_is_found_and_described(authority: GridAuthority, environ: pytest.MonkeyPatch) -> None:
    file = authority.proxy(voms=["/cms/Role=NULL", "/cms/higgs/Role=NULL"], voms_lifetime=6 * HOUR)
    environ.setenv("X509_USER_PROXY", str(file))
    proxy = X509Proxy(voms="/cms/higgs")
    assert problems(proxy) == []
    facts = proxy.facts()
    assert facts is not None
    assert (facts.found, facts.subject) == (str(file), "/O=Cenote Test/CN=Ada Muon")
    assert facts.issuer == "/O=Cenote Test/CN=Cenote Test CA"
    assert "/cms/higgs" in facts.details["VOMS"]
    assert facts.details["authorities"] == str(authority.directory)
    assert facts.ends == pytest.approx(time.time() + 6 * HOUR, abs=60), "its attributes end first"
    assert proxy.read() == file.read_bytes()
    assert proxy.variables() == {"X509_USER_PROXY": FILE}


def test_a_proxy_is_found_by_path_by_variable_and_in_the_usual_place(
    authority: GridAuthority, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = authority.proxy(tmp_path / "mine")
    environ.setenv("HOME", str(tmp_path))
    environ.setenv("FOLDER", str(tmp_path))
    environ.setenv("MY_PROXY", str(file))
    for found in (X509Proxy(path="~/mine"), X509Proxy(path="${FOLDER}/mine"), X509Proxy(variable="MY_PROXY")):
        facts = found.facts()
        assert facts is not None
        assert facts.found == str(file)
        assert problems(found) == []
    assert X509Proxy().facts() is None
    authority.proxy(tmp_path / "x509up")
    assert X509Proxy().facts() is not None


def test_one_that_is_missing_names_every_place(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (missing,) = problems(X509Proxy())
    assert missing.kind is NO_CREDENTIAL
    assert "X509_USER_PROXY" in missing.message
    assert f"x509up_u{os.geteuid()}" in missing.message
    environ.setenv("X509_USER_PROXY", str(tmp_path / "gone"))
    (gone,) = problems(X509Proxy())
    assert gone.kind is NO_CREDENTIAL
    assert {str(tmp_path / "gone"), "X509_USER_PROXY"} <= set(gone.message.replace(",", "").split())
    assert [one.kind for one in problems(X509Proxy(variable="NOT_SET"))] == [NO_CREDENTIAL]
    assert [one.kind for one in problems(X509Proxy(path=str(tmp_path / "gone")))] == [NO_CREDENTIAL]
    (unset,) = problems(X509Proxy(path="$NOT_SET/proxy"))
    assert "$NOT_SET" in unset.message
    for proxy in (X509Proxy(), X509Proxy(variable="NOT_SET")):
        assert proxy.facts() is None
        with pytest.raises(OSError, match="proxy"):
            proxy.read()


def expired(authority: GridAuthority) -> Path:
    return authority.proxy(lifetime=-300, starts=-HOUR)


def of_an_expired_certificate(authority: GridAuthority) -> Path:
    return authority.proxy(of=authority.user("Old Ada", lifetime=-60))


def not_yet_valid(authority: GridAuthority) -> Path:
    return authority.proxy(starts=HOUR)


def with_ended_attributes(authority: GridAuthority) -> Path:
    return authority.proxy(voms="/cms/Role=NULL", voms_lifetime=-60)


def open_to_others(authority: GridAuthority) -> Path:
    return authority.proxy(mode=0o644)


def with_another_key(authority: GridAuthority) -> Path:
    return write_proxy(authority.folder / "another_key", authority.proxy_holder(), key=authority.ada.key)


def forged(authority: GridAuthority) -> Path:
    return GridAuthority(authority.folder / "forger").proxy()


def of_an_unknown_authority(authority: GridAuthority) -> Path:
    return GridAuthority(authority.folder / "stranger", "Stranger CA").proxy()


def with_a_broken_chain(authority: GridAuthority) -> Path:
    made, other = authority.proxy_holder(), authority.user("Eve Boson")
    return write_proxy(authority.folder / "broken", replace(made, chain=(other.certificate,)))


def the_certificate_itself(authority: GridAuthority) -> Path:
    return write_proxy(authority.folder / "usercert", authority.ada)


def without_a_certificate(authority: GridAuthority) -> Path:
    file = authority.folder / "text"
    file.touch(mode=0o600)
    file.write_text("not a proxy\n")
    return file


def damaged(authority: GridAuthority) -> Path:
    file = authority.proxy()
    file.write_bytes(file.read_bytes()[:300])
    return file


def a_folder(authority: GridAuthority) -> Path:
    folder = authority.folder / "folder"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (expired, "ended 5m"),
        (of_an_expired_certificate, "Old Ada"),
        (not_yet_valid, "begins in"),
        (with_ended_attributes, "VOMS"),
        (open_to_others, "0644"),
        (with_another_key, "private key"),
        (forged, "forged"),
        (of_an_unknown_authority, "Stranger CA"),
        (with_a_broken_chain, "did not sign"),
        (the_certificate_itself, "not a proxy"),
        (without_a_certificate, "no certificate"),
        (damaged, "no certificate"),
        (a_folder, "folder"),
    ],
)
def test_each_thing_that_is_wrong_has_its_own_words(
    authority: GridAuthority, make: Callable[[GridAuthority], Path], words: str
) -> None:
    file = make(authority)
    found = problems(X509Proxy(path=str(file)))
    assert [one.kind for one in found] == [BAD_CREDENTIAL] * len(found)
    assert any(words in one.message and str(file) in one.message for one in found), [str(one) for one in found]
    if file.is_file():
        secret = [line for line in file.read_text().splitlines() if len(line) == 64]
        assert not any(line in str(one) for one in found for line in secret)


def test_several_problems_are_told_at_once(authority: GridAuthority) -> None:
    file = authority.proxy(lifetime=-60, mode=0o640)
    text = "\n".join(str(one) for one in problems(X509Proxy(path=str(file), voms="/atlas")))
    assert [word for word in ("0640", f"chmod 600 {file}", "ended", "/atlas") if word not in text] == []


@pytest.mark.parametrize(
    ("wanted", "is_there"),
    [("/cms", True), ("cms", True), ("/cms/Role=production", True), ("/cm", False), ("/cms/Role=pilot", False)],
)
def test_a_group_or_role_may_be_demanded(authority: GridAuthority, wanted: str, is_there: bool) -> None:
    file = authority.proxy(voms=["/cms/Role=production", "/cms/Role=NULL"])
    assert (problems(X509Proxy(path=str(file), voms=wanted)) == []) is is_there


def test_a_minimum_lifetime_refuses_one_that_ends_soon(authority: GridAuthority) -> None:
    file = str(authority.proxy(lifetime=HOUR))
    assert problems(X509Proxy(path=file, minimum_lifetime="50m")) == []
    (short,) = problems(X509Proxy(path=file, minimum_lifetime="2h"))
    assert "2h" in " ".join(short.details)


def test_without_a_folder_of_authorities_no_proxy_is_good(
    authority: GridAuthority, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = str(authority.proxy())
    environ.setenv("X509_CERT_DIR", str(tmp_path / "none"))
    (missing,) = problems(X509Proxy(path=file))
    assert str(tmp_path / "none") in " ".join(missing.details)
    named = X509Proxy(path=file, certificates=str(authority.directory))
    assert problems(named) == []
    assert named.variables() == {"X509_USER_PROXY": FILE, "X509_CERT_DIR": str(authority.directory)}
    assert problems(X509Proxy(path=file, certificates=str(tmp_path / "no"))) != []


def test_it_is_renewed_an_hour_before_its_end_or_at_half_of_a_short_life(authority: GridAuthority) -> None:
    def margin(lifetime: float, **settings: str) -> float:
        return X509Proxy(path=str(authority.proxy(lifetime=lifetime, starts=0)), **settings).renew_before

    assert margin(12 * HOUR) == HOUR
    assert margin(120) == 60
    assert margin(12 * HOUR, minimum_lifetime="4h") == 4 * HOUR


def test_a_path_and_a_variable_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="not both"):
        X509Proxy(path="proxy", variable="PROXY")
