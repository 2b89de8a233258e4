"""Start an agent: `python -m cenote.service.agent.main --hub HOST:PORT --identity FILE --name WORKER …`."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cenote.common.certificates.identity import Identity, refusal_in_words
from cenote.common.signals import ASKING_TO_END
from cenote.common.software import Difference
from cenote.execution.worker.process.scratch import leave_scratch, make_scratch, scratch_place
from cenote.execution.worker.process.whereabouts import MARKS
from cenote.service.agent.agent import Agent
from cenote.service.agent.children import reap_descendants
from cenote.service.agent.folders import AgentFolders, Guard
from cenote.service.agent.options import AgentOptions, read_options


def main(_differences: Sequence[Difference] = ()) -> None:
    """Entry point of the process, whose software differs so from the service's: what matters has turned it away."""
    options = read_options(sys.argv[1:])
    for mark in MARKS:  # what it starts is not a worker of the service
        os.environ.pop(mark, None)
    try:
        context = Identity.read(options.identity).connecting()
    except OSError as problem:
        sys.exit(f"the certificate {options.identity} cannot be read: {refusal_in_words(problem)}")
    place = scratch_place(options.scratch) or Path(tempfile.gettempdir())
    try:
        root = make_scratch(place, options.name)
    except OSError as problem:
        sys.exit(f"no folder for instances can be made in {place}: {refusal_in_words(problem)}")
    guard = Guard(root)
    try:
        folders = AgentFolders(root)
        folders.make()
        guard.start()
        reap_descendants()
        reason, code = asyncio.run(_agent(options, context, folders, guard))
    finally:
        leave_scratch()
        guard.dismiss()
    sys.stderr.write(f"ended: {reason}\n")
    sys.exit(code)


async def _agent(
    options: AgentOptions, context: ssl.SSLContext, folders: AgentFolders, guard: Guard
) -> tuple[str, int]:
    agent = Agent(options, context=context, folders=folders, guard=guard)
    loop = asyncio.get_running_loop()
    for number in ASKING_TO_END:
        loop.add_signal_handler(number, agent.end, f"{signal.Signals(number).name} ended it")
    return await agent.run()


def turned_away(_reason: str) -> None:
    """The service reads the reason from what this process wrote."""


if __name__ == "__main__":
    main()
