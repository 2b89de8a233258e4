"""Say how files reach jobs of HTCondor that see no files of this machine, and how they come back."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from cenote.errors import JOB_REFUSED, error
from cenote.launch import FETCH, LOG, WORKER, Blank, Blanks, Launch, NodeVariable, Sent, Word
from cenote.strategies.htcondor.values import plain, remapped

LargeFiles = Literal["fetched", "sent"]
"""How a job gets files that nodes may have already: by asking for them, or with all others."""
_PLACES = (
    *('"${_CONDOR_BIN:-/usr/bin}"/../libexec/condor', '"$(condor_config_val LIBEXEC 2>/dev/null || echo /usr)"'),
    *("/usr/libexec/condor", "/usr/lib/condor/libexec"),
)
"""Of programs that are for jobs only: no PATH has them. The variable is set by HTCondor from version 9 on."""
CHIRP = f"PATH=$PATH:{':'.join(_PLACES)} condor_chirp fetch"
"""Copies a file of this machine from within a job, by the connection that the job has with it."""


def with_ways(launch: Launch, large: LargeFiles) -> Launch:
    """A launch in which large files are fetched by jobs that lack them, or are sent to each of them."""
    if large == "sent":
        return replace(launch, files=tuple(replace(file, on_demand=False) for file in launch.files))
    return launch.with_variables(**{FETCH: CHIRP}) if any(file.on_demand for file in launch.files) else launch


def blanks(launch: Launch, worker: Word) -> Blanks:
    """A worker logs to, and finds files in, the folder that HTCondor gives it."""
    folder = NodeVariable("_CONDOR_SCRATCH_DIR")
    files: dict[Blank | Sent, Word] = {
        Sent(file.name): (str(file.source),) if file.on_demand else (folder, f"/{file.name}") for file in launch.files
    }
    return {WORKER: worker, LOG: worker, **files}


def transfers(launch: Launch, name: str) -> dict[str, str]:
    """Lines of the submit description."""
    log = f"{launch.run.folder('logs')}/"
    sent = [str(file.source) for file in launch.files if not file.on_demand]
    for path in (log, *sent):
        if re.search(r'[,"]', path):
            words = f"HTCondor cannot transfer {path}: a comma or a quote in a name ends it"
            raise error(JOB_REFUSED, words, hint="choose a folder for the run without them")
    return {
        "should_transfer_files": "YES",
        # Not ON_EXIT_OR_EVICT: what an evicted job leaves waits for its return, and ours never do.
        "when_to_transfer_output": "ON_EXIT",
        "transfer_input_files": ", ".join([plain(log) + name, *map(plain, sent)]),
        "transfer_output_files": name,
        "transfer_output_remaps": remapped(name, log),
    }
