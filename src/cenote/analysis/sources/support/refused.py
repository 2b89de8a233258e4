"""Explain why a server refused a file: which credentials were used, and what is wrong with them.

XRootD has the same words for a proxy that ended, is missing, forged or unknown: "Auth failed: No protocols left to
try". What can be found out here is said here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp

from cenote.analysis.sources.support.https import REFUSALS
from cenote.common.credential_files.places import (
    AUTHORITIES,
    AUTHORITIES_VARIABLE,
    PROXY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    CredentialFileError,
    Fault,
    find_authorities,
    find_proxy,
    find_token,
    usual_proxy,
    usual_token_file,
)
from cenote.common.credential_files.proxy import proxy_faults, read_proxy
from cenote.common.credential_files.token import read_token, token_faults
from cenote.common.errors import ErrorKind, Problem
from cenote.common.text import clock_time, join_words

_XROOTD_REFUSALS = re.compile(r"Auth failed|Login failed|\[3010\]|[Pp]ermission denied|[Nn]ot authorized")
"""Of XRootD 5 and 6; 3010 is kXR_NotAuthorized."""
_BEFORE_THE_REASON = re.compile(r"^.*?\[(?:FATAL|ERROR)\]\s*(?:Server responded with an error: )?")


def refusal(url: str, problem: BaseException, kind: ErrorKind) -> Problem | None:
    """The problem, where a server refused this file; None where something else went wrong."""
    words = _words(url, problem)
    if words is None:
        return None
    lines, hint = _credentials(url, os.environ, time.time())
    return Problem(kind, f"{url} cannot be read: {words}", details=tuple(lines), hint=hint)


def _words(url: str, problem: BaseException) -> str | None:
    for one in (problem, problem.__cause__):  # fsspec turns whatever HTTP servers say into FileNotFoundError
        if isinstance(one, aiohttp.ClientResponseError) and one.status in REFUSALS:
            return f"the server refuses access ({one.status} {one.message})"
        if isinstance(one, aiohttp.ClientConnectorCertificateError):
            return "the server's certificate comes from no authority that is trusted here"
    if url.startswith("http") or not isinstance(problem, OSError):
        return None
    reason = _BEFORE_THE_REASON.sub("", str(problem)).strip()
    if "TLS error" in reason:
        return f"there is no encrypted connection with the server ({reason})"
    return f"the server refuses access ({reason})" if _XROOTD_REFUSALS.search(reason) else None


def _credentials(url: str, environ: Mapping[str, str], now: float) -> tuple[list[str], str]:
    """A line on each, and what to do: about the first thing that is wrong, or else about what is missing."""
    by_proxy = not url.startswith("http")
    parts = [*([_proxy(environ, now)] if by_proxy else []), _token(url, environ, now), _authorities(environ)]
    lines = [line for line, _ in parts]
    hints = [fault.hint for _, faults in parts for fault in faults if fault.hint]
    if not find_token(environ) and not (by_proxy and find_proxy(environ)):
        what = "a proxy or a token" if by_proxy else "a token"
        return lines, f"get {what}, and name its kind under `execution.credentials`, so that workers have it too"
    return lines, hints[0] if hints else "ask the owners of the data which group, role, scope or audience they want"


def _proxy(environ: Mapping[str, str], now: float) -> tuple[str, list[Fault]]:
    path = find_proxy(environ)
    if path is None:
        return f"proxy: none, since ${PROXY_VARIABLE} is not set and {usual_proxy()} does not exist", []
    faults = proxy_faults(path, now, find_authorities(environ))
    try:
        facts = read_proxy(path)
    except CredentialFileError:
        return _line("proxy", str(path), faults), faults
    groups = [f"VOMS {', '.join(facts.voms)}"] if facts.voms else []
    return _line(
        "proxy", f"{path} of {facts.identity}", faults, *groups, f"ends {clock_time(facts.ends, now=now)}"
    ), faults


def _token(url: str, environ: Mapping[str, str], now: float) -> tuple[str, list[Fault]]:
    place = find_token(environ)
    if place is None:
        variables = f"${TOKEN_VARIABLE} and ${TOKEN_FILE_VARIABLE} are not set"
        return f"token: none, since {variables} and {usual_token_file(environ)} does not exist", []
    path = "/" + urlsplit(url).path.lstrip("/")
    faults = token_faults(place, now, scopes=[f"storage.read:{path}"])
    try:
        facts = read_token(place.read())
    except CredentialFileError:
        return _line("token", str(place), faults), faults
    audience = [f"for {', '.join(facts.audience)}"] if facts.audience else []
    end = [f"ends {clock_time(facts.ends, now=now)}"] if facts.ends is not None else []
    shown = f"{place} of {facts.subject or 'an unnamed subject'}, issued by {facts.issuer or 'an unnamed issuer'}"
    return _line("token", shown, faults, *audience, f"scope {' '.join(facts.scope) or 'none'}", *end), faults


def _authorities(environ: Mapping[str, str]) -> tuple[str, list[Fault]]:
    folder = find_authorities(environ)
    if folder is not None:
        return f"authorities: {folder}", []
    named = environ.get(AUTHORITIES_VARIABLE)
    why = f"{named} does not exist" if named else f"${AUTHORITIES_VARIABLE} is not set and {AUTHORITIES[0]} is missing"
    fault = Fault(why, f"set {AUTHORITIES_VARIABLE} to the folder with the certificates of the grid's authorities")
    return f"authorities: none, since {why}", [fault]


def _line(what: str, shown: str, faults: list[Fault], *good: str) -> str:
    """`proxy: /tmp/x509up_u1 of /O=…/CN=Ada ended 5m ago, at …`, or what else is known of it."""
    if faults:
        return f"{what}: {shown} {join_words([fault.what for fault in faults])}"
    return ", ".join([f"{what}: {shown}", *good])
