"""The one table of what can be asked: the server's paths and the OpenAPI document are both made from it."""

from __future__ import annotations

from typing import Any, get_args

from cenote.client.access_records import (
    CallerRecord,
    CreatedToken,
    Done,
    NewToken,
    PageLink,
    SignIn,
    StoppingRecord,
    TokenRecord,
    UploadRecord,
)
from cenote.client.records import (
    AwaitedInstances,
    EndedInstances,
    LivePoolRecord,
    NewPool,
    NewTask,
    QueuedTaskRecord,
    QueueForecast,
    ServiceRecord,
    TaskChange,
    TaskInstance,
    TaskVerb,
)
from cenote.service.history.slots import SlotsOverTime
from cenote.service.http import access_answers, answers, watch_answers
from cenote.service.http.caller import Who
from cenote.service.http.openapi import document_of
from cenote.service.http.route import BYTES, EVENTS, PAGE, Asked, Desk, NoQuery
from cenote.service.http.route import HttpRoute as Route  # short, for the table
from cenote.service.run_views.known_runs import RunSeen

_TASK, _UPLOAD, _RUN = "/tasks/{id}", "/uploads/{digest}", "/runs/{id}"


async def _openapi(_desk: Desk, _asked: Asked[NoQuery, None]) -> dict[str, Any]:  # Any: a document of JSON
    return document_of(ROUTES)


# fmt: off
ROUTES: tuple[Route, ...] = (
    # the service
    Route("GET", "/service", answers.service, "Describe the service.", Who.USER, ServiceRecord),
    Route("GET", "/openapi.json", _openapi, "Describe everything that can be asked.", Who.USER, dict[str, Any]),
    Route("GET", "/events", answers.events, "Tell what happens, as it happens.", Who.USER,
          query=answers.WhichEvents, media=EVENTS),
    Route("POST", "/reload", answers.reload, "Read the file of the service again.", Who.ADMIN, ServiceRecord),
    Route("POST", "/stop", answers.stop, "End the service with its workers.", Who.ADMIN, StoppingRecord,
          query=answers.HowToStop),
    # who asks
    Route("GET", "/caller", answers.caller, "Say who asks, and what they may do.", Who.USER, CallerRecord),
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
    Route("GET", "/pools", answers.pools, "List pools that are not closed.", Who.USER, list[LivePoolRecord]),
    Route("POST", "/pools", answers.create_pool, "Create a pool.", Who.USER, LivePoolRecord, takes=NewPool, status=201),
    Route("GET", "/pools/{name}", answers.pool, "Describe a pool.", Who.USER, LivePoolRecord,
          query=answers.UntilChanged),
    Route("DELETE", "/pools/{name}", answers.delete_pool, "Stop what a pool runs, and forget it.", Who.POOL_OWNER,
          Done),
    Route("POST", "/pools/{name}/close", answers.close_pool, "Let a pool end.", Who.POOL_OWNER, LivePoolRecord),
    # tasks
    Route("GET", "/tasks", answers.tasks, "List tasks, the latest first.", Who.USER, list[QueuedTaskRecord],
          query=answers.WhichTasks),
    Route("POST", "/tasks", answers.create_task, "Put a task into the queue.", Who.USER, QueuedTaskRecord,
          takes=NewTask, status=201),
    Route("GET", _TASK, answers.task, "Describe a task.", Who.USER, QueuedTaskRecord, query=answers.UntilTaskChanged),
    Route("POST", "/tasks/ended-instances", answers.ended_instances,
          "Wait for instances, and read what their calls returned.", Who.USER, EndedInstances, takes=AwaitedInstances),
    Route("DELETE", _TASK + "/results", answers.remove_results, "Remove the files that a task left.", Who.TASK_OWNER,
          Done),
    Route("POST", _TASK + f"/{{verb:{'|'.join(get_args(TaskVerb))}}}", answers.change_task, "Change a task.",
          Who.TASK_OWNER, QueuedTaskRecord, takes=TaskChange),
    Route("GET", _TASK + "/instances", answers.instances, "List the instances of a task.", Who.TASK_OWNER,
          list[TaskInstance], query=answers.WhichInstances),
    Route("GET", _TASK + "/{stream:stdout|stderr}", answers.output, "Read what a task printed.", Who.TASK_OWNER,
          query=answers.WhichOutput, media=BYTES),
    Route("GET", _TASK + "/results", answers.results, "List the files that a task left.", Who.TASK_OWNER,
          tuple[str, ...]),
    Route("GET", _TASK + "/results/{name:.+}", answers.result, "Read a file that a task left.", Who.TASK_OWNER,
          media=BYTES),
    Route("GET", "/queue", answers.queue, "List what waits, in the order in which it would start.", Who.USER,
          dict[str, list[QueuedTaskRecord]], query=answers.WhichPool),
    Route("GET", "/forecast", answers.forecast, "Say when tasks would start and end.", Who.USER, QueueForecast,
          query=answers.HowForeseen),
    # what those ask who watch
    Route("GET", "/pools/{name}/history", watch_answers.history, "Say how the slots of a pool were used.", Who.USER,
          SlotsOverTime, query=watch_answers.WhichHistory),
    Route("GET", "/runs", watch_answers.runs, "List your tasks that drive runs, the latest first.", Who.USER,
          list[QueuedTaskRecord]),
    Route("GET", _RUN, watch_answers.run, "Describe the run that a task drives.", Who.TASK_OWNER, RunSeen),
    Route("GET", _RUN + "/report", watch_answers.report, "Read the report of a run that is over.", Who.TASK_OWNER,
          media=PAGE),
    Route("GET", _RUN + "/{folder:products|plots}/{name:.+}", watch_answers.product,
          "Read a file that a run published.", Who.TASK_OWNER, media=BYTES),
)
# fmt: on
