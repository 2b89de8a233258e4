"""Bring the log of an earlier version to the form of today."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

import msgspec

from cenote.language.schema.service import OTHERS

_WITH_RULES = ("RulesChanged", "ServiceKept")


def rewrite_events(database: sqlite3.Connection, version: int) -> None:
    """Write events anew whose form has changed since; to be called in a transaction. What is damaged stays so."""
    if version < 2:
        rows = database.execute("""select id, body from events where cast(body as text) like '%"rules":%'""").fetchall()
        for number, body in rows:
            with suppress(msgspec.DecodeError, KeyError, TypeError):
                event = msgspec.json.decode(body)
                if event["type"] in _WITH_RULES:
                    _rewrite_rules(event["rules"])
                    database.execute("update events set body = ? where id = ?", (msgspec.json.encode(event), number))


def _rewrite_rules(rules: dict[str, Any]) -> None:
    """Until version 1 rules were not kept as the file of the service has them: weights had no common key, an empty name
    stood for `others`, and pools where `preemption` had not been written said that it is on."""
    rules["shares"] = {"users": rules.pop("weights", {}), "groups": rules.pop("group_weights", {})}
    for of_pool in rules["pools"].values():
        of_pool["preemption"] = None if of_pool.get("preemption", True) else False
    for one in (rules, *rules["pools"].values()):
        for by_user in one.values():
            if isinstance(by_user, dict) and "" in by_user:
                by_user[OTHERS] = by_user.pop("")
