"""Keep what modifiers warn of within bounds: code may warn for every event, in other words each time."""

from __future__ import annotations

MOST_OF_TASK = 20
"""Different messages that a task keeps."""
MOST_OF_RUN = 100
"""Different messages of tasks that a run keeps."""


class KeptWarnings:
    """The first different messages, and how often something else was said."""

    def __init__(self, most: int = MOST_OF_TASK) -> None:
        self._most = most
        self._messages: dict[str, None] = {}
        self.more = 0
        """How often something was said that is not kept."""

    def add(self, message: str) -> bool:
        """Keep it; False where it is not new, or there are too many."""
        new = message not in self._messages
        if new and len(self._messages) < self._most:
            self._messages[message] = None
            return True
        self.more += new
        return False

    @property
    def messages(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(self._messages)
