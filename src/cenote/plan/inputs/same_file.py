"""Say which file is the same as one of an earlier run: by its content, by where and how old it is, or by every byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.language.workflow import SourceUse
from cenote.plan.inputs.metadata import FileAnswer
from cenote.plan.inputs.metadata_cache import MetadataCache
from cenote.sources.interface import FileInfo, Source
from cenote.sources.support.content import checksum
from cenote.sources.support.files import explained, is_remote, local_path, stamp_of

AT_ONCE = 8
"""Files that are read at the same time: checksums are computed without Python's lock, and servers answer slowly."""


def as_asked(
    files: Sequence[tuple[SourceUse, Source, FileAnswer]], *, all_seen: bool, cache: MetadataCache | None = None
) -> list[FileAnswer]:
    """These files with a `content` as their sources want it. Checksums are computed where all files are looked at."""
    behind = {
        (use.id, one.url): source.files_behind(one.url)
        for use, source, one in files
        if use.same_file == "checksum" and all_seen and isinstance(one, FileInfo)
    }
    checksums = _checksums(list(dict.fromkeys(url for some in behind.values() for url in some)), cache)

    def known_by(use: SourceUse, info: FileInfo) -> FileAnswer:
        found = [checksums[url] for url in behind.get((use.id, info.url), ())]
        problem = next((one for one in found if isinstance(one, Problem)), None)
        return problem or replace(info, content="+".join(map(str, found)))

    return [
        known_by(use, one) if use.same_file != "content" and isinstance(one, FileInfo) else one for use, _, one in files
    ]


def _checksums(urls: Sequence[str], cache: MetadataCache | None) -> dict[str, str | Problem]:
    """Of each file; one that was read before, and that nobody wrote to since, is not read again."""
    if not urls:
        return {}
    cache = cache or MetadataCache()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        versions = dict(zip(urls, pool.map(version_of, urls), strict=True))
        known = cache.checksums(version for version in versions.values() if version)
        found: dict[str, str | Problem] = {url: known[version] for url, version in versions.items() if version in known}
        left = [url for url in urls if url not in found]
        found |= zip(left, pool.map(_checksum, left), strict=True)
        now = dict(zip(left, pool.map(version_of, left), strict=True))
    cache.remember_checksums(dict(_unchanged(found, versions, now)))
    return found


def _unchanged(
    found: dict[str, str | Problem], before: dict[str, str], after: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Version → checksum, of files that nobody wrote to meanwhile."""
    for url, version in after.items():
        one = found[url]
        if version and version == before[url] and isinstance(one, str):
            yield version, one


def version_of(url: str) -> str:
    """Another text after a file was written, here also where its size and time are set back. Empty: unknown."""
    stamp = stamp_of(url)
    if not stamp or is_remote(url):
        return f"{url} {stamp}" if stamp else ""
    path = local_path(url)
    try:
        found = path.stat()
    except OSError:  # whoever reads it will say so
        return ""
    return f"{os.path.abspath(path)} {stamp} {found.st_ctime_ns} {found.st_ino}"  # noqa: PTH100  # links are followed by stat


def _checksum(url: str) -> str | Problem:
    try:
        with explained(url, errors.BAD_INPUT):
            return checksum(url)
    except CenoteError as problem:
        return problem.problems[0]
