"""X.509 proxies, with VOMS attributes or without: what `voms-proxy-init` makes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from cenote.common.credential_files.places import (
    AUTHORITIES,
    AUTHORITIES_VARIABLE,
    PROXY_VARIABLE,
    CredentialFileError,
    find_proxy,
    read_file,
    usual_proxy,
)
from cenote.common.credential_files.proxy import RENEWAL, ProxyFacts, proxy_faults, read_proxy
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, CenoteError, Problem
from cenote.common.text import listed
from cenote.execution.credentials.interface import FILE, CredentialFacts
from cenote.execution.credentials.support.found_credential import (
    FoundCredential,
    expanded,
    is_there,
    named_by,
    problems_of,
)


class X509Proxy(FoundCredential):
    """Sends your X.509 proxy to workers: what GSI and VOMS servers ask for.

    It is the file that `X509_USER_PROXY` names, else `/tmp/x509up_u<uid>`. The whole chain is checked: dates,
    signatures up to a trusted authority, the private key. Revocation lists and policies of proxies are left to servers.
    """

    example: ClassVar[str] = """
    execution:
      credentials:
        - type: x509
          voms: /cms
          minimum_lifetime: 4h
          renew: voms-proxy-init --voms cms --rfc --valid 24:00
    """

    voms: str | None = None
    """A group or role of your experiment that it must have: `/cms`, or `/cms/Role=production`."""

    def _problems(self, now: float) -> Iterator[Problem]:
        path = self._find()
        if path is None or not is_there(path):
            yield self._missing(path)
            return
        what = f"the proxy {path}"
        yield from problems_of(what, proxy_faults(path, now, self.authorities))
        if self.authorities is None:
            yield self._no_authorities()
        facts = self._read(path)
        if facts is None:
            return
        yield from self.too_short(what, _end(facts), now, renewal=RENEWAL)
        if self.voms is not None and not _has(facts.voms, self.voms):
            words = f"{what} lacks the VOMS attribute {self.voms}"
            has = f"it has: {listed(facts.voms)}" if facts.voms else "it has no VOMS attributes"
            yield Problem(
                BAD_CREDENTIAL, words, details=(has,), hint=f"voms-proxy-init --voms {_experiment(self.voms)}"
            )

    def facts(self) -> CredentialFacts | None:
        """Whose it is, until when, and its groups and roles."""
        try:
            path, folder = self._find(), self.authorities
        except CenoteError:
            return None
        found = None if path is None else self._read(path)
        if found is None:
            return None
        details = {"VOMS": listed(found.voms)} if found.voms else {}
        details |= {"authorities": str(folder)} if folder is not None else {}
        return CredentialFacts(
            found=str(path),
            subject=found.identity,
            issuer=found.authority,
            begins=found.begins,
            ends=_end(found),
            details=details,
        )

    def read(self) -> bytes:
        """The whole file: proxy, key and chain."""
        path = self._find()
        if path is None:
            raise FileNotFoundError("there is no proxy")
        try:
            return read_file(path)
        except CredentialFileError as problem:
            raise OSError(f"the proxy {path} {problem}") from None

    def variables(self) -> Mapping[str, str | None]:
        """That of the proxy; that of the authorities where a setting names their folder."""
        return {PROXY_VARIABLE: FILE, **self.trust_variables()}

    def _find(self) -> Path | None:
        if self.path is not None:
            return expanded(self.path)
        if self.variable is not None:
            return named_by(self.variable)
        found = find_proxy(os.environ)
        return None if found is None else found.absolute()

    def _read(self, path: Path) -> ProxyFacts | None:
        try:
            return read_proxy(path)
        except CredentialFileError:
            return None

    def _missing(self, path: Path | None) -> Problem:
        variable = self.variable or PROXY_VARIABLE
        if path is not None:
            looked = f"no file {path}" + (f", which {variable} names" if self.path is None else "")
        else:
            looked = f"{variable} is not set" + (f", no file {usual_proxy()}" if self.variable is None else "")
        return Problem(NO_CREDENTIAL, f"there is no proxy: {looked}", hint=RENEWAL)

    def _no_authorities(self) -> Problem:
        if self.certificates is not None:
            places = str(expanded(self.certificates))
        elif os.environ.get(AUTHORITIES_VARIABLE):
            places = f"{os.environ[AUTHORITIES_VARIABLE]}, which {AUTHORITIES_VARIABLE} names"
        else:
            places = f"{AUTHORITIES_VARIABLE} is not set, no folder {listed(map(str, AUTHORITIES))}"
        words = "there is no folder of certificate authorities: proxies can be neither checked nor used without it"
        hint = f"set `certificates:` or {AUTHORITIES_VARIABLE} to the folder of your site"
        return Problem(BAD_CREDENTIAL, words, details=(f"looked for: {places}",), hint=hint)


def _end(facts: ProxyFacts) -> float:
    """That of its groups and roles where it comes first: without them it opens little."""
    return facts.ends if facts.voms_ends is None else min(facts.ends, facts.voms_ends)


def _has(attributes: tuple[str, ...], wanted: str) -> bool:
    """Whether it has this group or role: members of `/cms/higgs` are members of `/cms`."""
    asked = f"/{wanted.strip('/')}".removesuffix("/Capability=NULL").removesuffix("/Role=NULL")
    return any(f"{attribute}/".startswith(f"{asked}/") for attribute in attributes)


def _experiment(wanted: str) -> str:
    """`cms` of `/cms/higgs`, or `cms:/cms/Role=production`, as voms-proxy-init wants it."""
    experiment = wanted.strip("/").partition("/")[0]
    return f"{experiment}:/{wanted.strip('/')}" if "Role=" in wanted else experiment
