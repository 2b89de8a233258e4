"""State what the exit codes mean; errors.py gives each kind of error its own."""

from __future__ import annotations

DONE = 0
PARTIAL = 1
DIFFERS = 1
"""As of `diff`: what was compared is not the same."""
FAULT = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES: tuple[tuple[str, str], ...] = (
    (f"{DONE}", "done"),
    (
        f"{PARTIAL}",
        "partial: some data could not be processed (--keep-going), or a table not written; `cenote diff`: runs differ",
    ),
    ("2", "the command was not understood, or the output folder is taken"),
    ("10-19", "the file is wrong (10 YAML and keys, 11 plan, 12 plugins, 14 no pool can ever run a stage)"),
    ("20-29", "the run failed (20 a stage, 21 workers, 22 an input that changed)"),
    (
        "30-39",
        "the environment (30 software, 31 full disk, 32 no access, 33 broken storage, 34 bad path, 35 damaged run)",
    ),
    ("40-49", "the batch system, or a service, refused"),
    (f"{FAULT}", "an internal error of cenote"),
    ("129", "ended by SIGHUP: the terminal was closed"),
    (f"{INTERRUPTED}", "ended by Ctrl-C or `cenote cancel`"),
    ("143", "ended by SIGTERM"),
    (f"{PIPE_CLOSED}", "the reader of the output closed the pipe"),
)
