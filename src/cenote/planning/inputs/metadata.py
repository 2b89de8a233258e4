"""Read the metadata of many files at once, and of none twice."""

from __future__ import annotations

import hashlib
import json
import os.path
import pickle
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cenote.analysis.sources.interface import FileInfo, Source
from cenote.analysis.sources.support.files import is_remote
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.common.machine import this_machine
from cenote.common.shell import ALONE, run_command
from cenote.common.signals import Interrupted
from cenote.common.values import dataclass
from cenote.planning.inputs.metadata_cache import MetadataCache, Packer

REMOTE_AT_ONCE = 16
"""Files asked for at the same time over the network: the waiting is what costs, not the work."""
SECONDS_ALONE = 1.0
"""That local files are read here first. Most are done by then; of the others it is known what they will take."""
SECONDS_FOR_HELP = 5.0
"""That the rest has to take for processes to be asked: each needs a second to start."""
FILES_PER_PROCESS = 200
"""Then a process hands in what it read, and progress moves on."""

REMEMBERED_TOGETHER = 500
"""Files whose metadata is written to the cache at once."""

InputsProgress = Callable[[int, int], None]
"""Called with how many files of how many are known."""
FileAnswer = FileInfo | Problem


@dataclass(frozen=True)
class _Asked:
    source: Source
    kind: str
    url: str
    key: bytes


def describe_all(
    requests: Sequence[tuple[Source, str, str]],
    *,
    cache: MetadataCache | None = None,
    progress: InputsProgress | None = None,
) -> list[FileAnswer]:
    """For every (source, its kind, file): the metadata, or the problem with that file. The order is kept.

    Files on this machine are read here, very many of them by processes, remote ones by threads. What was read before,
    and has not changed since, comes from the cache.
    """
    cache = cache or MetadataCache()
    report = progress or (lambda _done, _total: None)
    asked = [_Asked(source, kind, url, _key(source, kind, url)) for source, kind, url in requests]
    distinct = {request.key: request for request in asked}
    stamps = _stamps(list(distinct.values()))
    packer = Packer()
    answers: dict[bytes, FileAnswer] = dict(cache.known({key: stamp for key, stamp in stamps.items() if stamp}, packer))
    report(len(answers), len(distinct))
    fresh: list[tuple[_Asked, FileInfo]] = []

    def remember() -> None:
        """What still is as it was before it was described: else nobody knows which of two files was."""
        now = _stamps([request for request, _ in fresh])
        same = [(request.key, info) for request, info in fresh if now[request.key] == stamps[request.key]]
        cache.remember([(key, stamps[key], info) for key, info in same])
        fresh.clear()

    for request, answer in _read([one for key, one in distinct.items() if key not in answers]):
        if isinstance(answer, FileInfo):
            answer = packer.pack(answer)
            if stamps[request.key]:
                fresh.append((request, answer))
            answer = replace(answer, places=b"")  # of many files they are too much to hold: the cache has them
        answers[request.key] = answer
        report(len(answers), len(distinct))
        if len(fresh) == REMEMBERED_TOGETHER:
            remember()
    remember()
    return [answers[request.key] for request in asked]


def noted_places(files: Sequence[tuple[Source, str, str, str]], *, cache: MetadataCache | None = None) -> list[bytes]:
    """For every (source, its kind, file, its stamp): where its columns are, as the source noted it; empty: unknown."""
    keys = [_key(source, kind, url) for source, kind, url, _ in files]
    stamps = {key: stamp for key, (*_, stamp) in zip(keys, files, strict=True)}
    known = (cache or MetadataCache()).places(stamps)
    return [known.get(key, b"") for key in keys]


def last_entries(source: Source, kind: str, url: str, *, cache: MetadataCache | None = None) -> int | None:
    """How many events a file had when it was read last, whatever it is now; None where it never was."""
    return (cache or MetadataCache()).last_entries(_key(source, kind, url))


def describe_one(source: Source, url: str) -> FileAnswer:
    """The metadata of one file, or the problem with it."""
    try:
        return source.describe(url)
    except CenoteError as problem:
        return problem.problems[0]
    except Interrupted:
        raise
    except BaseException as problem:
        if _is_built_in(source):
            raise
        name = type(source).__name__
        return Problem(errors.BAD_INPUT, f"{url}: {name} cannot read it: {errors.words_of(problem)}")


def _key(source: Source, kind: str, url: str) -> bytes:
    where = url if "://" in url else os.path.abspath(url)  # noqa: PTH100  # ten times faster
    text = json.dumps([kind, source.model_dump(mode="json"), where], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _stamps(asked: Sequence[_Asked]) -> dict[bytes, str]:
    """By threads, in a few large pieces: on network file systems each question takes a millisecond."""

    def of_piece(start: int) -> list[tuple[bytes, str]]:
        return [(request.key, request.source.stamp(request.url)) for request in asked[start::REMOTE_AT_ONCE]]

    if len(asked) <= REMOTE_AT_ONCE and not any(is_remote(request.url) for request in asked):
        return {request.key: request.source.stamp(request.url) for request in asked}
    with _pool(REMOTE_AT_ONCE) as pool:
        return {key: stamp for piece in pool.map(of_piece, range(REMOTE_AT_ONCE)) for key, stamp in piece}


def _read(missing: Sequence[_Asked]) -> Iterator[tuple[_Asked, FileAnswer]]:
    remote = [request for request in missing if is_remote(request.url)]
    for kind in {type(request.source) for request in remote}:
        kind.warm_up()  # imports of several threads would meet
    with _pool(REMOTE_AT_ONCE) as pool:
        waiting = {pool.submit(describe_one, request.source, request.url): request for request in remote}
        yield from _read_local([request for request in missing if not is_remote(request.url)])
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _read_local(local: Sequence[_Asked]) -> Iterator[tuple[_Asked, FileAnswer]]:
    """Here, and after a while by processes, if much is left."""
    started = time.monotonic()
    left = deque(sorted(local, key=lambda request: _is_built_in(request.source)))
    while left and not (
        _is_built_in(left[0].source) and _needs_help(time.monotonic() - started, len(left), len(local))
    ):
        request = left.popleft()
        yield request, describe_one(request.source, request.url)
    with _pool(this_machine().cpus) as pool:
        for future in as_completed([pool.submit(_read_in_process, batch) for batch in _batches(list(left))]):
            yield from future.result()


def _needs_help(seconds: float, left: int, total: int) -> bool:
    expected = seconds * left / max(1, total - left)
    return this_machine().cpus > 1 and seconds >= SECONDS_ALONE and expected >= SECONDS_FOR_HELP


def _is_built_in(source: Source) -> bool:
    """Whether a process of its own can find it: plugins beside the workflow are known in this one only."""
    return type(source).__module__.startswith("cenote.")


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Threads that are not waited for when something goes wrong, or somebody presses Ctrl-C."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _batches(requests: Sequence[_Asked]) -> Iterator[list[_Asked]]:
    """Requests to the same source, so many that every core has work and progress can be seen."""
    by_source: dict[tuple[str, str], list[_Asked]] = {}
    for request in requests:
        by_source.setdefault((request.kind, request.source.model_dump_json()), []).append(request)
    size = max(1, min(FILES_PER_PROCESS, len(requests) // this_machine().cpus))
    for alike in by_source.values():
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _read_in_process(batch: Sequence[_Asked]) -> list[tuple[_Asked, FileAnswer]]:
    """In a fresh interpreter: `multiprocessing` would run the user's own script again in every child."""
    first = batch[0]
    question: Mapping[str, object] = {
        "kind": first.kind,
        "settings": first.source.model_dump(mode="json"),
        "urls": [request.url for request in batch],
    }
    with tempfile.TemporaryDirectory(prefix="cenote-") as folder:
        asked, answered = Path(folder) / "asked.json", Path(folder) / "answered.pickle"
        asked.write_text(json.dumps(question))
        command = [sys.executable, *ALONE, "-m", "cenote.planning.inputs.metadata_reader", str(asked), str(answered)]
        try:
            run_command(command, seconds=60 + 10 * len(batch))
            answers: list[FileAnswer] = pickle.loads(
                answered.read_bytes()
            )  # by our own process, in a folder of our own
        except (OSError, TimeoutError, pickle.UnpicklingError, EOFError):  # it died: what kills it may well be one file
            answers = [describe_one(request.source, request.url) for request in batch]
    return list(zip(batch, answers, strict=True))
