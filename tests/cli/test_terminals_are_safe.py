"""Names and messages come from others too: printing them commands no terminal, and what we draw ourselves stays."""

from __future__ import annotations

import io
import sys

import pytest
from rich.table import Table
from rich.text import Text

from cenote.cli import console, streams


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\x9b2Jb", "a\\x9b2Jb"),
        ("a\x1b", "a\\x1b"),
        ("exe.\u202egnp\u2066", "exe.\\u202egnp\\u2066"),
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


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\x1b[1A\x1b[2Kb", "a\\x1b[1A\\x1b[2Kb"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\x1b[?25lb", "a\\x1b[?25lb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\rb\x08", "ab"),  # rich drops these
    ],
)
def test_a_text_on_a_console_can_neither_erase_nor_colour(written: str, shown: str, terminal: bool) -> None:
    class File(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row(Text(written))
    plain, cell = File(), File()
    console._console(plain).print(written)
    console._console(cell).print(table)
    assert plain.getvalue() == f"{shown}\n"
    assert len(cell.getvalue()) > 2
    assert shown.startswith(cell.getvalue().rstrip())  # cut to the width that it would have had
