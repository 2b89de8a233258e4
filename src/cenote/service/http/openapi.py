"""Describe all routes in OpenAPI 3.1, from the types of their bodies."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cenote import __version__
from cenote.service.client.asking import API, IDEMPOTENCY_KEY, LAST_EVENT_ID
from cenote.service.client.records import ProblemRecord
from cenote.service.http.access_answers import COOKIE
from cenote.service.http.caller import Who
from cenote.service.http.route import BYTES, EVENTS, JSON, HttpRoute

_BLANK = re.compile(r"{(\w+)(?::([^}]*))?}")
_REF = "#/components/schemas/{name}"
STATUSES = {
    400: "The request cannot be read, or asks for what cannot be.",
    401: "Whoever asks is not signed in.",
    403: "Whoever asks may not do this.",
    404: "There is no such thing.",
    408: "The request came too slowly.",
    413: "The request, or the upload, is too large.",
    429: "Too many requests: try again after `Retry-After` seconds.",
}
"""Of answers that are problems."""
Json = dict[str, Any]
"""Any: whatever JSON can hold."""


def document_of(routes: Sequence[HttpRoute]) -> Json:
    """The whole document."""
    kinds = [one for route in routes for one in (route.gives, route.takes) if one is not None]
    queries = list(dict.fromkeys(route.query for route in routes))
    found, components = msgspec.json.schema_components([*kinds, ProblemRecord, *queries], ref_template=_REF)
    schemas = iter(found)
    paths: dict[str, Json] = {}
    for route in routes:
        gives = next(schemas) if route.gives is not None else None
        takes = next(schemas) if route.takes is not None else None
        for path, names in _spelled(route.path):
            operation = _operation(route, names, gives, takes, components)
            paths.setdefault(f"{API}{path}", {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cenote service", "version": __version__},
        "servers": [{"url": "/", "description": "The service that this was read from."}],
        "paths": paths,
        "components": {
            "schemas": {
                name: one for name, one in components.items() if name not in {kind.__name__ for kind in queries}
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _spelled(path: str) -> Iterator[tuple[str, list[str]]]:
    """A path for each word that a blank may be, with its other blanks: those of OpenAPI may be anything."""
    blanks = list(_BLANK.finditer(path))
    choices = [words.split("|") if (words := blank[2]) and "|" in words else [f"{{{blank[1]}}}"] for blank in blanks]
    for chosen in itertools.product(*choices):
        words = iter(chosen)
        yield _BLANK.sub(lambda _: next(words), path), [one[1:-1] for one in chosen if one.startswith("{")]  # noqa: B023


def _operation(route: HttpRoute, names: list[str], gives: Json | None, takes: Json | None, components: Json) -> Json:
    answer: Json = {"description": route.words}
    if route.media == JSON and gives is not None:
        answer["content"] = {JSON: {"schema": gives}}
    else:
        answer["content"] = {route.media: {"schema": {"type": "string"} if route.media == EVENTS else {}}}
    problem = {JSON: {"schema": {"$ref": _REF.format(name=ProblemRecord.__name__)}}}
    described: Json = {
        "summary": route.words,
        "description": f"For {route.who.value}.",
        "parameters": [*_blanks(names), *_query(route, components), *_headers(route)],
        "responses": {
            str(route.status): answer,
            **{str(status): {"description": words, "content": problem} for status, words in STATUSES.items()},
        },
    }
    if route.who is Who.ANYONE:
        described["security"] = []
    if takes is not None:
        required = bool(components[takes["$ref"].rpartition("/")[2]].get("required"))
        described["requestBody"] = {"required": required, "content": {JSON: {"schema": takes}}}
    if route.uploads:
        described["requestBody"] = {"required": True, "content": {BYTES: {"schema": {}}}}
    return described


def _blanks(names: list[str]) -> list[Json]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query(route: HttpRoute, components: Json) -> list[Json]:
    properties = components[route.query.__name__].get("properties", {})
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _headers(route: HttpRoute) -> list[Json]:
    if route.media == EVENTS:
        words = "The id of the last event that was heard: events after it follow."
        return [{"name": LAST_EVENT_ID, "in": "header", "schema": {"type": "string"}, "description": words}]
    if route.method == "POST" and route.status == 201:
        words = "Made by the client: the same request sent again has the same, and is done once."
        return [{"name": IDEMPOTENCY_KEY, "in": "header", "schema": {"type": "string"}, "description": words}]
    return []
