"""Answer what is asked of the service, its pools and its tasks: the table of its endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from aiohttp import web

from cenote.common import errors
from cenote.service.client.asking import LAST_EVENT_ID
from cenote.service.client.definitions import InstanceState, TaskState
from cenote.service.client.records import (
    AwaitedInstances,
    CallerRecord,
    CreatedToken,
    Done,
    EndedInstances,
    LivePoolRecord,
    NewPool,
    NewTask,
    NewToken,
    PageLink,
    QueuedTaskRecord,
    QueueForecast,
    ServiceRecord,
    SignIn,
    StoppingRecord,
    TaskChange,
    TaskInstance,
    TaskVerb,
    TokenRecord,
    UploadedFile,
    UploadRecord,
)
from cenote.service.history import SlotsOverTime
from cenote.service.http import access_answers
from cenote.service.http.caller import Who
from cenote.service.http.feed import Interest
from cenote.service.http.openapi import document_of
from cenote.service.http.route import BYTES, EVENTS, PAGE, Asked, Desk, NoQuery
from cenote.service.http.route import HttpRoute as Route  # short, for the table
from cenote.service.http.streaming import send_events, send_file, send_list
from cenote.service.run_views import RunSeen
from cenote.service.server.clock import in_turns

_LONGEST_WAIT = 60.0
"""Seconds that a request may wait for a change."""
Found = TypeVar("Found")


class UntilChanged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask to be answered when something is different."""

    changed_from: str | None = None
    """What was seen: the state of a pool, or the progress of a task."""
    seconds: float = 0.0
    """To wait for something else, at most."""


class UntilTaskChanged(UntilChanged, frozen=True, forbid_unknown_fields=True):
    """The same of a task."""

    ends: bool = False
    """Whether only its end is a difference: `changed_from` is empty then."""


class WhichTasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks are wanted."""

    pool: str | None = None
    state: TaskState | None = None
    label: str | None = None
    """That they have, as `name` or `name=value`."""
    most: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The so many that were submitted last."""


class WhichInstances(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which instances are wanted: of all, or of those in a state."""

    first: int = 0
    last: int | None = None
    """The one before which they end."""
    state: InstanceState | None = None


class WhichPool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pool is wanted."""

    pool: str | None = None


class HowForeseen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is assumed of tasks and workers that nothing is known of."""

    duration: float = 600.0
    """Seconds that an instance takes."""
    startup: float = 30.0
    """Seconds from asking for a worker until it comes."""
    horizon: float = 7 * 86400.0
    """Seconds to look ahead."""


class WhichOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the output is wanted."""

    instance: int | None = None
    since: int = 0
    """The first byte; below 0, so many before the end. A header of the answer says which it is."""


class HowToStop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the service ends."""

    drain: bool = False
    """Whether it waits for what runs, and begins nothing more."""


class WhichEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events are wanted."""

    task: str | None = None
    """With its output."""
    pool: str | None = None


async def service(desk: Desk, asked: Asked[NoQuery, None]) -> ServiceRecord:
    """The service itself."""
    return asked.caller.shown_service(desk.requests.record())


async def caller(_desk: Desk, asked: Asked[NoQuery, None]) -> CallerRecord:
    """Who asks."""
    return asked.caller.record


async def stop(desk: Desk, asked: Asked[HowToStop, None]) -> StoppingRecord:
    """End the service, with its workers: at once, or when what they run is over."""
    running = desk.requests.running
    if asked.query.drain:
        desk.requests.drain()
    else:
        desk.stop()
    return StoppingRecord(running=running)


async def events(desk: Desk, asked: Asked[WhichEvents, None]) -> web.StreamResponse:
    """What happens, as it happens."""
    task = None if asked.query.task is None else desk.requests.task(asked.query.task)
    interest = Interest(asked.caller, None if task is None else task.id, asked.query.pool)
    return await send_events(
        asked.request,
        desk.feed,
        interest,
        after=asked.request.headers.get(LAST_EVENT_ID),
        is_welcome=lambda: desk.access.still_knows(asked.caller),
    )


# Pools


async def pools(desk: Desk, _asked: Asked[NoQuery, None]) -> list[LivePoolRecord]:
    """Every pool that is not closed."""
    return desk.requests.pools()


async def pool(desk: Desk, asked: Asked[UntilChanged, None]) -> LivePoolRecord:
    """One pool."""
    name = asked.names["name"]
    return await _when_changed(
        desk, asked.query, lambda: desk.requests.pool(name), lambda: desk.requests.pool(name).state
    )


async def create_pool(desk: Desk, asked: Asked[NoQuery, NewPool]) -> LivePoolRecord:
    """A new pool."""
    body, user = asked.body, asked.caller.user
    _refuse_paths(asked, body.resources)
    await desk.requests.read_ahead(body.resources)
    return desk.requests.create_pool(
        body,
        user,
        admin=asked.caller.admin,
        key=asked.key,
        place=lambda folder: desk.uploads.place(user, body.uploads, folder),
    )


async def close_pool(desk: Desk, asked: Asked[NoQuery, None]) -> LivePoolRecord:
    """A pool that takes no more work."""
    return desk.requests.close_pool(asked.names["name"])


async def delete_pool(desk: Desk, asked: Asked[NoQuery, None]) -> Done:
    """A pool that is not wanted any more."""
    await desk.requests.delete_pool(asked.names["name"])
    return Done()


# Tasks


async def tasks(desk: Desk, asked: Asked[WhichTasks, None]) -> AsyncIterator[QueuedTaskRecord]:
    """Tasks, the latest first."""
    which = asked.query
    found = desk.requests.tasks(pool=which.pool, state=which.state, label=which.label, most=which.most)
    return (asked.caller.shown(one) async for one in found)


async def task(desk: Desk, asked: Asked[UntilTaskChanged, None]) -> QueuedTaskRecord:
    """One task."""
    name, requests = asked.names["id"], desk.requests
    found = await _when_changed(
        desk,
        asked.query,
        lambda: requests.task(name),
        lambda: requests.ending(name) if asked.query.ends else requests.progress(name),
    )
    return asked.caller.shown(found)


async def create_task(desk: Desk, asked: Asked[NoQuery, NewTask]) -> QueuedTaskRecord:
    """A new task."""
    user = asked.caller.user
    body = msgspec.structs.replace(asked.body, group=asked.caller.group_of_task(asked.body.group))
    _refuse_paths(asked, (*body.resources, *([body.run] if body.run else [])))
    await desk.requests.read_ahead(body.resources)
    return desk.requests.create_task(
        body,
        user,
        admin=asked.caller.admin,
        key=asked.key,
        place=lambda folder: desk.uploads.place(user, body.uploads, folder),
    )


async def change_task(desk: Desk, asked: Asked[NoQuery, TaskChange]) -> QueuedTaskRecord:
    """A task that waits, or runs, otherwise."""
    verb = msgspec.convert(asked.names["verb"], TaskVerb)
    return desk.requests.change_task(asked.names["id"], verb, asked.body, asked.caller.user, admin=asked.caller.admin)


async def instances(desk: Desk, asked: Asked[WhichInstances, None]) -> AsyncIterator[TaskInstance]:
    """Instances of a task."""
    query = asked.query
    return desk.requests.instances(asked.names["id"], first=query.first, last=query.last, state=query.state)


async def output(desk: Desk, asked: Asked[WhichOutput, None]) -> web.StreamResponse:
    """What a task printed."""
    names, query = asked.names, asked.query
    file = desk.requests.output_file(names["id"], names["stream"], instance=query.instance)
    return await send_file(asked.request, file, query.since)


async def ended_instances(desk: Desk, asked: Asked[NoQuery, AwaitedInstances]) -> EndedInstances:
    """Which of some instances are over, with what their calls returned."""
    for name in asked.body.tasks:
        if not asked.caller.owns(owner := desk.requests.task(name).user):
            raise errors.error(errors.NOT_ALLOWED, f"task {name} belongs to user '{owner}'")
    loop = asyncio.get_running_loop()
    until = loop.time() + _patience(asked.body.seconds)
    while True:
        change = desk.next_change()
        found = desk.requests.ended_instances(asked.body)
        left = until - loop.time()
        if found.ended or found.added != asked.body.added or left <= 0:
            return found
        await asyncio.wait([change], timeout=left)


async def remove_results(desk: Desk, asked: Asked[NoQuery, None]) -> Done:
    """The files that a task left are not needed any more."""
    desk.requests.remove_results(asked.names["id"])
    return Done()


async def results(desk: Desk, asked: Asked[NoQuery, None]) -> tuple[str, ...]:
    """Names of the files that a task left."""
    return desk.requests.result_names(asked.names["id"])


async def result(desk: Desk, asked: Asked[NoQuery, None]) -> web.StreamResponse:
    """Such a file."""
    return await send_file(asked.request, desk.requests.result_file(asked.names["id"], asked.names["name"]))


async def queue(desk: Desk, asked: Asked[WhichPool, None]) -> dict[str, list[QueuedTaskRecord]]:
    """What waits for pools."""
    found = await desk.requests.queue(asked.query.pool)
    return {name: [asked.caller.shown(one) for one in waiting] for name, waiting in found.items()}


async def forecast(desk: Desk, asked: Asked[HowForeseen, None]) -> web.StreamResponse:
    """When tasks would start and end: no more of those of others than the queue tells."""
    async with desk.forecasting:
        look = await desk.requests.forecast(**msgspec.structs.asdict(asked.query))
        found = await asyncio.to_thread(look)
    return await send_list(asked.request, in_turns(found.tasks), before=b'{"tasks":[', after=b"]}")


async def reload(desk: Desk, _asked: Asked[NoQuery, None]) -> ServiceRecord:
    """Read the file again."""
    return desk.requests.reload()


def _refuse_paths(asked: Asked[Any, Any], files: tuple[str, ...] | tuple[UploadedFile, ...]) -> None:
    if files and not asked.caller.at_home:
        raise errors.error(
            errors.NOT_ALLOWED,
            "files of the service's machine can be named by its owner only, over its socket",
            hint="upload them, and name them under `uploads`",
        )


async def _when_changed(desk: Desk, query: UntilChanged, view: Callable[[], Found], seen: Callable[[], str]) -> Found:
    """The view; where the request says what it has seen, once that is no longer so, or its time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _patience(query.seconds)
    while True:
        change = desk.next_change()
        left = until - loop.time()
        if query.changed_from is None or seen() != query.changed_from or left <= 0:
            return view()
        await asyncio.wait([change], timeout=left)


def _patience(seconds: float) -> float:
    """Seconds to wait for whoever asks for so many; none for what is not a number (`nan`), which no clock can hold."""
    return min(max(0.0, seconds), _LONGEST_WAIT)


# The one table of what can be asked: the server's paths and the OpenAPI document are both made from it.


_TASK, _UPLOAD, _RUN = "/tasks/{id}", "/uploads/{digest}", "/runs/{id}"


async def _openapi(_desk: Desk, _asked: Asked[NoQuery, None]) -> dict[str, Any]:  # Any: a document of JSON
    return document_of(ROUTES)


# fmt: off
ROUTES: tuple[Route, ...] = (
    # the service
    Route("GET", "/service", service, "Describe the service.", Who.USER, ServiceRecord),
    Route("GET", "/openapi.json", _openapi, "Describe everything that can be asked.", Who.USER, dict[str, Any]),
    Route("GET", "/events", events, "Tell what happens, as it happens.", Who.USER,
          query=WhichEvents, media=EVENTS),
    Route("POST", "/reload", reload, "Read the file of the service again.", Who.ADMIN, ServiceRecord),
    Route("POST", "/stop", stop, "End the service with its workers.", Who.ADMIN, StoppingRecord,
          query=HowToStop),
    # who asks
    Route("GET", "/caller", caller, "Say who asks, and what they may do.", Who.USER, CallerRecord),
    Route("POST", "/session", access_answers.sign_in, "Sign a browser in.", Who.ANYONE, CallerRecord,
          takes=SignIn, status=201),
    Route("DELETE", "/session", access_answers.sign_out, "Sign a browser out.", Who.USER, Done),
    Route("POST", "/page", access_answers.page_link, "Make a link that signs the owner in once.", Who.ADMIN, PageLink),
    Route("GET", "/tokens", access_answers.tokens, "List tokens.", Who.ADMIN, list[TokenRecord]),
    Route("POST", "/tokens", access_answers.create_token, "Make a token for a user.", Who.ADMIN, CreatedToken,
          takes=NewToken, status=201),
    Route("DELETE", "/tokens/{id}", access_answers.revoke_token, "Revoke a token.", Who.ADMIN, TokenRecord),
    # files of users
    Route("GET", _UPLOAD, access_answers.uploaded, "Say whether content was uploaded.", Who.USER, UploadRecord,
          query=access_answers.HowUploaded),
    Route("PUT", _UPLOAD, access_answers.upload, "Upload the content of a file.", Who.USER, UploadRecord,
          query=access_answers.HowUploaded, uploads=True, status=201),
    # pools
    Route("GET", "/pools", pools, "List pools that are not closed.", Who.USER, list[LivePoolRecord]),
    Route("POST", "/pools", create_pool, "Create a pool.", Who.USER, LivePoolRecord, takes=NewPool, status=201),
    Route("GET", "/pools/{name}", pool, "Describe a pool.", Who.USER, LivePoolRecord,
          query=UntilChanged),
    Route("DELETE", "/pools/{name}", delete_pool, "Stop what a pool runs, and forget it.", Who.POOL_OWNER,
          Done),
    Route("POST", "/pools/{name}/close", close_pool, "Let a pool end.", Who.POOL_OWNER, LivePoolRecord),
    # tasks
    Route("GET", "/tasks", tasks, "List tasks, the latest first.", Who.USER, list[QueuedTaskRecord],
          query=WhichTasks),
    Route("POST", "/tasks", create_task, "Put a task into the queue.", Who.USER, QueuedTaskRecord,
          takes=NewTask, status=201),
    Route("GET", _TASK, task, "Describe a task.", Who.USER, QueuedTaskRecord, query=UntilTaskChanged),
    Route("POST", "/tasks/ended-instances", ended_instances,
          "Wait for instances, and read what their calls returned.", Who.USER, EndedInstances, takes=AwaitedInstances),
    Route("DELETE", _TASK + "/results", remove_results, "Remove the files that a task left.", Who.TASK_OWNER,
          Done),
    Route("POST", _TASK + f"/{{verb:{'|'.join(get_args(TaskVerb))}}}", change_task, "Change a task.",
          Who.TASK_OWNER, QueuedTaskRecord, takes=TaskChange),
    Route("GET", _TASK + "/instances", instances, "List the instances of a task.", Who.TASK_OWNER,
          list[TaskInstance], query=WhichInstances),
    Route("GET", _TASK + "/{stream:stdout|stderr}", output, "Read what a task printed.", Who.TASK_OWNER,
          query=WhichOutput, media=BYTES),
    Route("GET", _TASK + "/results", results, "List the files that a task left.", Who.TASK_OWNER,
          tuple[str, ...]),
    Route("GET", _TASK + "/results/{name:.+}", result, "Read a file that a task left.", Who.TASK_OWNER,
          media=BYTES),
    Route("GET", "/queue", queue, "List what waits, in the order in which it would start.", Who.USER,
          dict[str, list[QueuedTaskRecord]], query=WhichPool),
    Route("GET", "/forecast", forecast, "Say when tasks would start and end.", Who.USER, QueueForecast,
          query=HowForeseen),
    # what those ask who watch
    Route("GET", "/pools/{name}/history", access_answers.history, "Say how the slots of a pool were used.", Who.USER,
          SlotsOverTime, query=access_answers.WhichHistory),
    Route("GET", "/runs", access_answers.runs, "List your tasks that drive runs, the latest first.", Who.USER,
          list[QueuedTaskRecord]),
    Route("GET", _RUN, access_answers.run, "Describe the run that a task drives.", Who.TASK_OWNER, RunSeen),
    Route("GET", _RUN + "/report", access_answers.report, "Read the report of a run that is over.", Who.TASK_OWNER,
          media=PAGE),
    Route("GET", _RUN + "/{folder:products|plots}/{name:.+}", access_answers.product,
          "Read a file that a run published.", Who.TASK_OWNER, media=BYTES),
)
# fmt: on
