"""Read by `https://`, with the user's token where a server asks for one, and trusting the grid's authorities.

A token goes only where it is needed: over HTTPS, to a server that refused the same request without it. It is read anew
for every request, so that one that was renewed counts at once.
"""

from __future__ import annotations

import os
from http import HTTPStatus

import aiohttp
from yarl import URL

from cenote.common.credential_files.places import CredentialFileError, file_faults, find_authorities, find_token
from cenote.common.credential_files.trust import trusting

REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


async def open_session(**options: object) -> aiohttp.ClientSession:
    """What fsspec asks through; it gives its loop, which is the one that runs."""
    del options
    connector = aiohttp.TCPConnector(ssl=trusting(find_authorities(os.environ)))
    return aiohttp.ClientSession(connector=connector, middlewares=(TokenOnDemand(),))


class TokenOnDemand:
    """Repeats a request that was refused, with the token; asks the same server with it from then on."""

    def __init__(self) -> None:
        self._wanted_by: set[URL] = set()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """One request, or one step of a chain of redirections."""
        server = request.url.origin()
        if server in self._wanted_by and (token := usable_token(request.url)):
            return await _with_token(request, handler, token)
        answer = await handler(request)
        if answer.status not in REFUSALS or (token := usable_token(request.url)) is None:
            return answer
        answer.release()
        self._wanted_by.add(server)
        return await _with_token(request, handler, token)


def usable_token(url: URL) -> str | None:
    """The user's token, if it may travel there; one that others can read is as good as none, as XRootD has it."""
    place = find_token(os.environ)
    if url.scheme != "https" or place is None or (place.path is not None and file_faults(place.path)):
        return None
    try:
        token = place.read()
    except CredentialFileError:
        return None
    return token if token.isascii() and token.isprintable() and " " not in token else None


async def _with_token(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType, token: str
) -> aiohttp.ClientResponse:
    request.headers[aiohttp.hdrs.AUTHORIZATION] = f"Bearer {token}"
    try:
        return await handler(request)
    finally:  # errors keep the headers of their request
        request.headers.popall(aiohttp.hdrs.AUTHORIZATION, None)
