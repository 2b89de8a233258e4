"""Compile the Python files of a prefix before they are packed: workers then start several times faster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from cenote import errors
from cenote.machine import this_machine
from cenote.packing.progress import PackingStep, Progress
from cenote.shell import run_command
from cenote.text import plural

_PROGRAM = Path(__file__).with_name("compile_sources.py")
_AT_ONCE = 400
"""Files that one process compiles: a second or so."""
_MOST_SECONDS, _MOST_SECONDS_TO_START = 600.0, 60.0
_SURROUNDINGS = ("PATH=/usr/bin:/bin", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8")
_ALONE = ("-s", "-S", "-P", "-W", "ignore")


def _command(python: Path) -> list[str]:
    return ["env", "-i", *_SURROUNDINGS, str(python), *_ALONE]


def python_runs_here(python: Path) -> bool:
    """Whether this Python starts on this machine: one for another platform does not."""
    try:
        done = run_command([*_command(python), "-c", ""], seconds=_MOST_SECONDS_TO_START)
    except (OSError, TimeoutError):
        return False
    return done.returncode == 0


def compile_sources(
    python: Path, folder: Path, names: Sequence[str], target: Path, paths: Sequence[str], progress: Progress
) -> None:
    """Compile the files of these names in the folder, with this Python; bytecode is written below the target.

    What holds one of the paths is left out. Nothing of the process that does it, or of its surroundings, is in there.
    """
    parts = [names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
    sizes = [sum((folder / name).stat().st_size for name in part) for part in parts]
    what, done = f"compiling {plural(len(names), 'module')}", 0

    def compile_part(part: Sequence[str]) -> None:
        program = [str(_PROGRAM), str(folder), str(target), *paths]
        command, given = [*_command(python), *program], "\0".join(part)
        ended = run_command(command, seconds=_MOST_SECONDS, given=given, hears_ctrl_c=False)
        if ended.returncode != 0:
            last = (ended.stderr.strip() or f"it ended with code {ended.returncode}").splitlines()[-1]
            raise errors.error(errors.BAD_ENVIRONMENT, f"{python} cannot compile the modules of its prefix: {last}")

    if names:
        progress(PackingStep(what, done, sum(sizes)))
    with ThreadPoolExecutor(this_machine().cpus) as pool:
        work = {pool.submit(compile_part, part): size for part, size in zip(parts, sizes, strict=True)}
        try:
            for part in as_completed(work):
                part.result()
                done += work[part]
                progress(PackingStep(what, done, sum(sizes)))
        finally:
            pool.shutdown(cancel_futures=True)
