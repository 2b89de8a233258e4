"""Files that the service sent stay as long as they are used, and as there is room."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from cenote.service.agent import received_files
from cenote.service.agent.received_files import ReceivedFiles
from cenote.service.protocol import FileChunk, NeedFile, PlacedFile


def test_those_used_longest_ago_go_first_and_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_files, "_MOST_BYTES", 25)
    asked: list[NeedFile] = []
    received = ReceivedFiles(tmp_path, asked.append)
    contents = {digest_of(content): content for content in (b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 10)}
    files = {content[:1]: PlacedFile("f", digest, 10) for digest, content in contents.items()}

    async def have(name: bytes) -> None:
        coming = asyncio.ensure_future(received.have([files[name]]))
        await asyncio.sleep(0)
        while asked:
            digest = asked.pop().digest
            received.receive(FileChunk(digest=digest, offset=0, data=contents[digest], last=True))
        await coming

    async def story() -> None:
        with received.kept([files[b"a"]]):
            for name in (b"a", b"b", b"c", b"d"):
                await have(name)
            assert names(tmp_path) == {b"a", b"c", b"d"}, "a is used, b is older than the others"
        await have(b"b")
        assert b"b" in names(tmp_path)

    asyncio.run(story())


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def names(folder: Path) -> set[bytes]:
    return {file.read_bytes()[:1] for file in folder.iterdir()}
