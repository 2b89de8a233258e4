"""Names and messages come from others too: printing them commands no terminal, and what we draw ourselves stays."""

from __future__ import annotations

import io
import sys

import pytest

from cenote.cli import streams


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\x9b2Jb", "a\\x9b2Jb"),
        ("a\x1b", "a\\x1b"),
        ("\x1b[1;32mgreen\x1b[0m\t\x1b[2K\x1b[1A\x1b[?25l\r\n", "\x1b[1;32mgreen\x1b[0m\t\x1b[2K\x1b[1A\x1b[?25l\r\n"),
        ("Z → μμ", "Z → μμ"),
    ],
)
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_would_command_a_terminal_is_shown_instead(
    name: str, written: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.StringIO())
    inner: io.StringIO = getattr(sys, name)
    streams.make_ready()
    try:
        getattr(sys, name).write(written)
    finally:
        streams.give_back()
    assert inner.getvalue() == shown
