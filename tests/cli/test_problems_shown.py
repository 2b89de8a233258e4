"""Test how problems are shown: as text for pipes, with the line itself on a terminal."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from cenote.cli.views.problems import show_problems, source_lines, tally
from cenote.common.errors import UNKNOWN_KEY, UNKNOWN_POOL, Place, Problem


def shown_on(problems: list[Problem], *, terminal: bool) -> str:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, highlight=False, markup=False, width=80, color_system=None)
    show_problems(problems, console=console)
    return file.getvalue()


def test_a_pipe_gets_the_words_of_the_error() -> None:
    problem = Problem(
        UNKNOWN_POOL, "no pool provides 'gpus'", Place("flow.yaml", 14, 16), ("pools: default, gpu",), "use 'gpu'"
    )
    assert shown_on([problem], terminal=False) == f"{problem}\n1 problem in flow.yaml\n"


def test_long_lines_are_never_broken() -> None:
    problem = Problem(UNKNOWN_KEY, "word " * 60, Place("flow.yaml", 1, 1))
    assert shown_on([problem], terminal=False).splitlines()[0] == str(problem)


def test_a_terminal_also_gets_the_line_with_a_caret(tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("analysis:\n  stagess: []\n")
    told = shown_on([Problem(UNKNOWN_KEY, "unknown key 'stagess'", Place(str(flow), 2, 3))], terminal=True)
    lines = [line.rstrip() for line in told.splitlines()]
    assert lines[lines.index("  2 |   stagess: []") + 1] == "    |   ^"
    assert "[unknown-key]" in told


def test_the_caret_stands_below_a_tab(tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("\tkey: 1\n")
    assert source_lines(Place(str(flow), 1, 2), width=80)[-1] == "    | \t^"


def test_a_long_line_is_cut_so_that_the_caret_is_seen(tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("a" * 200 + "X" + "b" * 200)
    line, caret = source_lines(Place(str(flow), 1, 201), width=80)
    assert line[caret.index("^")] == "X"
    assert len(caret) < 80


def test_a_file_that_cannot_be_read_shows_no_line(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert source_lines(Place(str(binary), 1, 1), width=80) == []
    assert source_lines(Place(str(tmp_path / "none.yaml"), 1, 1), width=80) == []
    assert source_lines(Place(str(binary.with_name("short.yaml")), 99, 1), width=80) == []


def test_markup_in_a_message_is_only_text() -> None:
    assert "[bold]x[/bold]" in shown_on([Problem(UNKNOWN_KEY, "[bold]x[/bold]")], terminal=True)


def test_the_tally_names_the_file_if_there_is_one() -> None:
    here, there = (Problem(UNKNOWN_KEY, "m", Place(file, 1, 1)) for file in ("a.yaml", "b.yaml"))
    assert tally([here, here]) == "2 problems in a.yaml"
    assert tally([here, there]) == "2 problems in 2 files"
    assert tally([Problem(UNKNOWN_KEY, "m")]) == "1 problem"
