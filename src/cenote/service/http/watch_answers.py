"""Answer what those ask who watch: how slots were used over time, and how runs are that the service drives."""

from __future__ import annotations

import msgspec
from aiohttp import web

from cenote.client.records import QueuedTaskRecord
from cenote.service.history.slots import DAY, SlotsOverTime
from cenote.service.http.route import Asked, Desk, NoQuery
from cenote.service.http.streaming import send_file
from cenote.service.page.policies import REPORT_POLICY
from cenote.service.run_views.known_runs import RunSeen

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
