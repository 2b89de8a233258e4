"""Name the variables that mark processes of this machine with the run that they belong to."""

from __future__ import annotations

RUN, POOL, WORKER, HOME = "CENOTE_RUN", "CENOTE_POOL", "CENOTE_WORKER", "CENOTE_HOME"
MARKS = (RUN, POOL, WORKER, HOME)
"""A worker that starts others for itself takes them out of its own environment first."""
