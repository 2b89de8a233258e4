"""Keep tasks together that are one task for Dask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cenote.backends.support.bundling import key_of
from cenote.worker.task_spec import TaskSpec


@dataclass
class Bundle:
    """Tasks that are one task for Dask."""

    key: str
    pool: str
    specs: dict[int, TaskSpec]
    """By task; those that are cancelled are taken out."""
    future: Any
    """Its result, for as long as somebody waits for it."""
    worker: str | None = None
    """Who has begun it."""
    since: float = 0.0

    def __post_init__(self) -> None:
        self.segment, self.kind = key_of(next(iter(self.specs.values())))

    def slim(self) -> None:
        """Keep no more of the tasks than who they are: they are through, and many may wait for their readers."""
        self.specs = {task: replace(one, pieces=(), products=(), parts=()) for task, one in self.specs.items()}
