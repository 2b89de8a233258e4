"""Answer what is asked about tokens, sessions, uploads, runs and histories."""

from __future__ import annotations

import msgspec
from aiohttp import web

from cenote.common import errors
from cenote.service.access.tokens import KEY_SECONDS, SESSION_SECONDS
from cenote.service.client.records import (
    CreatedToken,
    Done,
    NewToken,
    PageLink,
    QueuedTaskRecord,
    SignIn,
    TokenRecord,
    UploadRecord,
)
from cenote.service.history import DAY, SlotsOverTime
from cenote.service.http.route import JSON, Asked, Desk, NoQuery
from cenote.service.http.streaming import received, send_file
from cenote.service.page.routes import REPORT_POLICY
from cenote.service.run_views import RunSeen

COOKIE = "__Host-cenote"
"""Browsers take a cookie with this beginning only over HTTPS, for this host and all its paths."""


class HowUploaded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be known of a file besides its content."""

    executable: bool = False


async def tokens(desk: Desk, _asked: Asked[NoQuery, None]) -> list[TokenRecord]:
    """All tokens."""
    return desk.access.tokens()


async def create_token(desk: Desk, asked: Asked[NoQuery, NewToken]) -> CreatedToken:
    """A new token."""
    token, record = desk.access.create_token(asked.body)
    return CreatedToken(token=token, record=record)


async def revoke_token(desk: Desk, asked: Asked[NoQuery, None]) -> TokenRecord:
    """A token that is worth nothing any more."""
    return desk.access.revoke_token(asked.names["id"])


async def sign_in(desk: Desk, asked: Asked[NoQuery, SignIn]) -> web.Response:
    """A session for a browser. The app has counted the attempt."""
    shown = desk.access.open_session(token=asked.body.token, key=asked.body.key)
    found = None if shown is None else desk.access.caller_with_session(shown)
    if shown is None or found is None:
        raise errors.error(errors.NOT_ALLOWED, "sign in")
    response = web.Response(body=msgspec.json.encode(found.record), content_type=JSON, status=201)
    response.set_cookie(COOKIE, shown, max_age=SESSION_SECONDS, path="/", secure=True, httponly=True, samesite="Strict")
    return response


async def sign_out(desk: Desk, asked: Asked[NoQuery, None]) -> web.Response:
    """The end of the session that asks."""
    if asked.caller.session:
        desk.access.end_session(asked.caller.session)
    response = web.Response(body=msgspec.json.encode(Done()), content_type=JSON)
    response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
    return response


async def page_link(desk: Desk, asked: Asked[NoQuery, None]) -> PageLink:
    """A link that signs in once, for the owner at the socket."""
    if not asked.caller.at_home:
        raise errors.error(errors.NOT_ALLOWED, "links to the page are for the owner of the service, at its socket")
    url = await desk.open_page()
    return PageLink(url=f"{url}/#key={desk.access.make_key()}", seconds=KEY_SECONDS, fingerprint=desk.fingerprint())


async def upload(desk: Desk, asked: Asked[HowUploaded, None]) -> UploadRecord:
    """Content of a file."""
    user, digest, executable = asked.caller.user, asked.names["digest"], asked.query.executable
    if (size := asked.request.content_length) is not None:
        desk.uploads.refuse_too_large(user, size)
    return await desk.uploads.receive(user, digest, received(asked.request), executable=executable)


async def uploaded(desk: Desk, asked: Asked[HowUploaded, None]) -> UploadRecord:
    """Whether content is there."""
    digest = asked.names["digest"]
    found = desk.uploads.find(asked.caller.user, digest, executable=asked.query.executable)
    if found is None:
        raise errors.error(errors.MISSING_FILE, f"you uploaded nothing with the digest {digest}, or it expired")
    return found


# Answer what those ask who watch: how slots were used over time, and how runs are that the service drives.


_MOST_POINTS = 2000


class WhichHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the past is wanted."""

    seconds: float = 3600.0
    """Until now; a day at most."""
    points: int = 240
    """At most, or a few more."""


async def history(desk: Desk, asked: Asked[WhichHistory, None]) -> SlotsOverTime:
    """How the slots of a pool were used."""
    seconds = min(max(1.0, asked.query.seconds), DAY)
    most = min(max(2, asked.query.points), _MOST_POINTS)
    return desk.requests.history(asked.names["name"], seconds=seconds, most=most)


async def runs(desk: Desk, asked: Asked[NoQuery, None]) -> list[QueuedTaskRecord]:
    """Tasks of theirs that drive runs, the latest first."""
    return [one for one in await desk.runs.all() if asked.caller.owns(one.user)]


async def run(desk: Desk, asked: Asked[NoQuery, None]) -> RunSeen:
    """One run, by the id of the task that drives it."""
    return await desk.runs.look(asked.names["id"])


async def report(desk: Desk, asked: Asked[NoQuery, None]) -> web.Response:
    """The page that a run wrote at its end."""
    page = await desk.runs.report(asked.names["id"])
    headers = {"Content-Security-Policy": REPORT_POLICY}
    return web.Response(body=page, content_type="text/html", charset="utf-8", headers=headers)


async def product(desk: Desk, asked: Asked[NoQuery, None]) -> web.StreamResponse:
    """A file that a run published."""
    file = await desk.runs.product(asked.names["id"], f"{asked.names['folder']}/{asked.names['name']}")
    return await send_file(asked.request, file)
