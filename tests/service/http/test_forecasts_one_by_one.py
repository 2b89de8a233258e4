"""Forecasts of a long queue take seconds of the service: however many ask, one is made at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from cenote.service.client.records import QueueForecast
from cenote.service.http import answers
from cenote.service.http.route import Asked, Desk


def test_forecasts_are_made_one_after_the_other() -> None:
    at_once: list[int] = []
    running: set[int] = set()

    def look() -> QueueForecast:
        running.add(number := len(at_once))
        at_once.append(len(running))
        time.sleep(0.05)  # others begin meanwhile, if they may
        running.discard(number)
        return QueueForecast(tasks=())

    async def forecast(**_: float) -> Callable[[], QueueForecast]:
        return look

    async def ask_five_times() -> None:
        requests = SimpleNamespace(forecast=forecast)
        desk = cast(Desk, SimpleNamespace(requests=requests, forecasting=asyncio.Lock()))
        asked = cast(Asked[Any, Any], SimpleNamespace(query=answers.HowForeseen(), request=None))
        await asyncio.gather(*(answers.forecast(desk, asked) for _ in range(5)))

    asyncio.run(ask_five_times())
    assert at_once == [1] * 5
