"""Keep the warm processes of an agent: one for each set of modules that Python instances want to find imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cenote.service.agent.python_children import PythonChildren
from cenote.worker.process.template import ForkRequest

_CALLS = "cenote.service.agent.function_calls"
"""What instances run that make calls of a function."""
_OURS = "cenote."
"""How modules begin that may be imported beforehand: code of others runs in instances alone."""


class Templates:
    """Each is started when it is first needed."""

    def __init__(self, usual: Sequence[str], folder: Path) -> None:
        self._usual, self._folder = tuple(usual), folder
        self._known: dict[tuple[str, ...], PythonChildren] = {}

    @property
    def pids(self) -> set[int]:
        """Of the warm processes."""
        return {one.pid for one in self._known.values()}

    async def warm_up(self) -> None:
        """Start the one with the usual modules."""
        await self._of(()).warm_up()

    async def start(self, asked: ForkRequest, warm: tuple[str, ...]) -> int:
        """The process of a new instance, which finds these modules imported. Raises NoTemplateError."""
        return await self._of(warm).start(asked)

    def close(self) -> None:
        """End them; instances go on."""
        for one in self._known.values():
            one.close()

    def _of(self, modules: tuple[str, ...]) -> PythonChildren:
        wanted = tuple(name for name in modules if name.startswith(_OURS))
        if wanted not in self._known:
            log = self._folder / f"template-{len(self._known) + 1}.err"
            self._known[wanted] = PythonChildren((_CALLS, *self._usual, *wanted), self._folder, log)
        return self._known[wanted]
