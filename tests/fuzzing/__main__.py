"""Try odd texts for as long as wanted: `make fuzz`, or `PYTHONPATH=tests python -m fuzzing --seconds 600 --seed 1`."""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from fuzzing.targets import CORPUS, TARGETS, HangsError, Target, furnish

_MEMORY = 4 * 2**30
"""Bytes that a text may cost."""
_SHRINKING = 30.0
"""Seconds for making a finding small."""


def main() -> int:
    """Try texts on the targets in turn; a finding goes to the corpus, where tests try it from then on."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long")
    parser.add_argument("--seed", type=int, default=None, help="for the first text; otherwise by the clock")
    parser.add_argument("--target", choices=[*TARGETS], action="append", help="only this one")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    seed = int(time.time()) if asked.seed is None else asked.seed
    targets = [TARGETS[name] for name in asked.target or TARGETS]
    tried, found = 0, 0
    deadline = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory(prefix="cenote-fuzzing-") as folder:
        os.chdir(folder)
        furnish(Path(folder))
        while time.monotonic() < deadline:
            target = targets[tried % len(targets)]
            text = target.make(Random(seed + tried))
            tried += 1
            if wrong := _wrong(target, text):
                found += 1
                small = _shrunk(target, text, wrong)
                file = CORPUS / target.name / hashlib.sha256(small).hexdigest()[:12]
                file.write_bytes(small)
                print(f"seed {seed + tried - 1}: {file}\n{wrong[1]}", flush=True)
        os.chdir("/")
    print(f"{tried} texts from seed {seed}: {found} findings")
    return 1 if found else 0


Wrong = tuple[str, str]
"""What makes two findings the same, and the whole story."""


def _wrong(target: Target, text: bytes) -> Wrong | None:
    try:
        target.run(text)
    except (Exception, RecursionError, MemoryError) as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        where = "" if isinstance(problem, HangsError) else f"{frames[-1].filename}:{frames[-1].lineno}"
        return f"{type(problem).__name__} {where}", traceback.format_exc()[-3000:]
    return None


def _shrunk(target: Target, text: bytes, wrong: Wrong) -> bytes:
    """A shorter text with the same fault."""
    deadline, size = time.monotonic() + _SHRINKING, len(text) // 2
    while size and time.monotonic() < deadline:
        start = 0
        while start < len(text) and time.monotonic() < deadline:
            shorter = text[:start] + text[start + size :]
            still = _wrong(target, shorter)
            if still is not None and still[0] == wrong[0]:
                text = shorter
            else:
                start += size
        size //= 2
    return text


if __name__ == "__main__":
    sys.exit(main())
