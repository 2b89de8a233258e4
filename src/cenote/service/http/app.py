"""Answer requests: find out who asks, whether they may and not too often, and explain what goes wrong."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from typing import Any, assert_never, get_args
from weakref import WeakKeyDictionary

import msgspec
from aiohttp import web

from cenote.common import errors
from cenote.common.text import did_you_mean, listed
from cenote.service.access.peers import RunningHere, StrangerError, task_behind
from cenote.service.client.asking import API, IDEMPOTENCY_KEY
from cenote.service.client.home import user_name
from cenote.service.client.records import ProblemRecord
from cenote.service.http.access_answers import COOKIE
from cenote.service.http.answers import ROUTES
from cenote.service.http.caller import Caller, Who
from cenote.service.http.limits import Buckets, RequestLimits, neighbourhood
from cenote.service.http.route import JSON, Asked, Desk, HttpRoute
from cenote.service.http.streaming import send_list
from cenote.service.page.routes import is_of_page, page_routes
from cenote.service.server.newcomers import Newcomers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_STATUS = {
    errors.UNKNOWN_POOL: 404,
    errors.UNKNOWN_STAGE: 404,
    errors.UNKNOWN_TOKEN: 404,
    errors.NO_RUN: 404,
    errors.MISSING_FILE: 404,
    errors.NO_ACCESS: 403,
    errors.NOT_ALLOWED: 403,
    errors.TOO_LARGE: 413,
}
"""Kinds of errors that have a number of HTTP's own; the others are 400."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of all answers, unless a handler has its own."""
_READS = ("GET", "HEAD")
_LONGEST_KEY = 128
_MOST_KNOWN = 10_000
_NOBODY = ProblemRecord(
    kind=errors.NOT_ALLOWED.name,
    message="the service does not know who asks",
    hint="sign in with `cenote login`, or show a token that is valid",
)
"""The one answer to everybody who is not signed in, whatever they tried."""


def make_app(desk: Desk, running: RunningHere, limits: RequestLimits, newcomers: Newcomers) -> web.Application:
    """All paths of the service."""
    gate = _Gate(desk, running, limits, newcomers)
    app = web.Application(middlewares=[_explained, gate.admit], client_max_size=limits.body)
    for route in ROUTES:
        app.router.add_route(route.method, API + route.path, _handler(desk, route, limits))
    app.add_routes(page_routes())
    app.on_response_prepare.append(_add_headers)
    return app


def _handler(desk: Desk, route: HttpRoute, limits: RequestLimits) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        caller: Caller = request["caller"]
        _refuse(route, caller, desk, request)
        key = request.headers.get(IDEMPOTENCY_KEY, "")
        if len(key) > _LONGEST_KEY:
            raise errors.error(errors.BAD_VALUE, f"{IDEMPOTENCY_KEY} has more than {_LONGEST_KEY} characters")
        query = _query(dict(request.query), route.query)
        body = None if route.takes is None else await _body(request, route.takes, limits.idle)
        asked: Asked[Any, Any] = Asked(caller, request.match_info, query, body, key, request)
        given = await route.answer(desk, asked)
        if isinstance(given, AsyncIterator):
            return await send_list(request, given, status=route.status)
        return given if isinstance(given, web.StreamResponse) else _json(given, status=route.status)

    return answer


def _query(given: dict[str, str], kind: type[msgspec.Struct]) -> msgspec.Struct:
    """What stands after the `?` of a path. A word that is none of those which are known is answered with them."""
    for field in msgspec.structs.fields(kind):
        enums = [one for one in get_args(field.type) if isinstance(one, type) and issubclass(one, Enum)]
        words = [str(word.value) for each in enums for word in each]
        if words and (word := given.get(field.name, words[0])) not in words:
            message = f"there is no {field.name} '{word}'; there are {listed(words)}"
            raise errors.error(errors.BAD_VALUE, message, hint=did_you_mean(word, words))
    return msgspec.convert(given, type=kind, strict=False)


async def _body(request: web.Request, kind: type[msgspec.Struct], seconds: float) -> object:
    try:
        async with asyncio.timeout(seconds):
            read = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return msgspec.json.decode(read or b"{}", type=kind)


def _refuse(route: HttpRoute, caller: Caller, desk: Desk, request: web.Request) -> None:
    """Raises where this is not for whoever asks."""
    match route.who:
        case Who.ANYONE | Who.USER:
            return
        case Who.ADMIN:
            owner, what = None, "that"
        case Who.TASK_OWNER:
            task = desk.requests.task(request.match_info["id"])
            owner, what = task.user, f"that with a task of user '{task.user}'"
        case Who.POOL_OWNER:
            pool = desk.requests.pool(request.match_info["name"])
            whose = f"user '{pool.user}'" if pool.user else "the service"
            owner, what = pool.user, f"that with a pool of {whose}"
        case _:
            assert_never(route.who)
    if not (caller.admin if owner is None else caller.owns(owner)):
        raise errors.error(errors.NOT_ALLOWED, f"user '{caller.user}' may not do {what}", hint=f"ask {route.who.value}")


@web.middleware
async def _explained(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors of ours as JSON, with a number."""
    try:
        return await handler(request)
    except errors.CenoteError as problem:
        first = problem.problems[0]
        record = ProblemRecord(kind=first.kind.name, message=first.message, hint=first.hint)
        return _json(record, status=_STATUS.get(first.kind, 400))
    except web.HTTPException as problem:
        kind = errors.TOO_LARGE if problem.status == web.HTTPRequestEntityTooLarge.status_code else errors.USAGE
        words = problem.reason.lower()
        return _json(ProblemRecord(kind=kind.name, message=f"{request.method} {request.path}: {words}"), problem.status)
    except (msgspec.MsgspecError, ValueError, TypeError) as problem:  # and numbers that are none
        return _json(
            ProblemRecord(kind=errors.BAD_VALUE.name, message=f"the request cannot be read: {problem}"), status=400
        )


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "cenote"  # aiohttp would tell its version


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type=JSON)


class _Gate:
    """Lets in whom the service knows."""

    def __init__(self, desk: Desk, running: RunningHere, limits: RequestLimits, newcomers: Newcomers) -> None:
        self._desk, self._running, self._newcomers = desk, running, newcomers
        self._users = Buckets(limits.user, time.monotonic)
        self._addresses = Buckets(limits.address, time.monotonic)
        self._attempts = Buckets(limits.attempts, time.monotonic)
        self._behind: WeakKeyDictionary[object, Caller] = WeakKeyDictionary()
        """Connections over the socket → who they are."""
        self._good: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Addresses, and hashes of what was worth something there."""

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer 401 and 429, or let a request through with its caller."""
        line = None if request.transport is None else request.transport.get_extra_info("socket")
        if line is None:
            raise ConnectionResetError
        if line.family == socket.AF_UNIX:
            return await self._admit_here(request, handler, line)
        address = neighbourhood(request.remote or "")
        if wait := self._addresses.take(address):
            return _too_often(wait)
        caller = self._known(request, address)
        if isinstance(caller, int):
            return _too_often(caller)
        if caller is None:
            return await self._admit_anyone(request, handler, address)
        self._newcomers.know(line.fileno())
        if wait := self._users.take(caller.user):
            return _too_often(wait)
        if caller.session and request.method not in _READS and not _is_same_origin(request):
            problem = ProblemRecord(kind=errors.NOT_ALLOWED.name, message="this request comes from another page")
            return _json(problem, status=403)
        request["caller"] = caller
        return await handler(request)

    async def _admit_here(self, request: web.Request, handler: Handler, line: socket.socket) -> web.StreamResponse:
        caller = self._behind.get(request.transport)
        if caller is None:
            try:
                caller = await self._behind_socket(line)
            except StrangerError as problem:
                return _json(ProblemRecord(kind=errors.NOT_ALLOWED.name, message=str(problem)), status=403)
            self._behind[request.transport] = caller
        if not caller.at_home and (wait := self._users.take(caller.user)):
            return _too_often(wait)
        request["caller"] = caller
        return await handler(request)

    async def _behind_socket(self, line: socket.socket) -> Caller:
        task = await task_behind(line, self._running)
        if task is None:
            return Caller(user=user_name(os.geteuid()), admin=True, at_home=True)
        try:
            found = self._desk.requests.task(task)
        except errors.CenoteError:
            raise StrangerError("the task of this process is not known") from None
        return Caller(user=found.user, groups=(found.group,) if found.group else ())

    def _known(self, request: web.Request, address: str) -> Caller | int | None:
        """Who shows a token or a session; seconds to wait where this address tried too often; None for nobody."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        shown = token.strip() if kind.lower() == "bearer" else ""
        cookie = request.cookies.get(COOKIE, "")
        if not shown and not cookie:
            return None
        if (wait := self._attempts.wait(address)) and (address, shown or cookie) not in self._good:
            return wait
        access = self._desk.access
        caller = access.caller_with_token(shown) if shown else access.caller_with_session(cookie)
        if caller is None:
            self._attempts.take(address)
            self._good.pop((address, shown or cookie), None)
            return None
        self._good[address, shown or cookie] = None
        self._good.move_to_end((address, shown or cookie))
        if len(self._good) > _MOST_KNOWN:
            self._good.popitem(last=False)
        return caller

    async def _admit_anyone(self, request: web.Request, handler: Handler, address: str) -> web.StreamResponse:
        """Nobody who is signed in: only for what is for anyone, with what they show."""
        if not _is_for_anyone(request):
            return _unknown()
        if wait := self._attempts.wait(address):
            return _too_often(wait)
        if request.method not in _READS and "Origin" in request.headers and not _is_same_origin(request):
            return _unknown()
        request["caller"] = Caller(user="")
        try:
            return await handler(request)
        except errors.CenoteError as problem:
            if problem.problems[0].kind is not errors.NOT_ALLOWED:
                raise
            self._attempts.take(address)
            return _unknown()


def _is_for_anyone(request: web.Request) -> bool:
    if is_of_page(request):
        return True
    asked = (request.method, request.path.removeprefix(API))
    return request.path.startswith(API) and any(
        (route.method, route.path) == asked for route in ROUTES if route.who is Who.ANYONE
    )


def _is_same_origin(request: web.Request) -> bool:
    return request.headers.get("Origin", "") == f"https://{request.host}"


def _unknown() -> web.Response:
    response = _json(_NOBODY, status=401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _too_often(seconds: int) -> web.Response:
    message = f"too many requests: try again in {seconds} s"
    response = _json(ProblemRecord(kind=errors.NOT_ALLOWED.name, message=message), status=429)
    response.headers["Retry-After"] = str(seconds)
    return response
