"""Decide which stages come before which, and find circles among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def find_circle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...] | None:
    """Stages that need each other in a circle, in the order in which they do; None when there is no such circle.

    Kahn's algorithm takes away whatever nothing holds back; from what is left every walk ends in a circle.
    """
    waiting = {stage: {need for need in of if need in needs} for stage, of in needs.items()}
    users: dict[str, list[str]] = {stage: [] for stage in needs}
    for stage, of in waiting.items():
        for need in of:
            users[need].append(stage)
    ready = [stage for stage, of in waiting.items() if not of]
    while ready:
        done = ready.pop()
        for user in users[done]:
            waiting[user].discard(done)
            if not waiting[user]:
                ready.append(user)
    left = {stage: of for stage, of in waiting.items() if of}
    if not left:
        return None
    walk: dict[str, None] = {}
    stage = next(iter(left))
    while stage not in walk:
        walk[stage] = None
        stage = next(need for need in left[stage] if need in left)
    visited = list(walk)
    return (*visited[visited.index(stage) :], stage)
