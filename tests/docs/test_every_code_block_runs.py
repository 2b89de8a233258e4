"""Test that every code block of README and docs is true: YAML is checked, Python and commands are run.

The blocks of a page run in order, in one empty folder. Comments that readers do not see say more:
`<!-- start: zmumu -->` begins with the files of that template, `<!-- file: flow.yaml -->` before a block writes the
block to that file; a remark after the name (`, wrong on purpose`) says why it cannot be checked by itself. In what a
command prints, `…` stands for anything, and times and sizes may differ.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import cenote
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.cli.main import exit_code_of
from cenote.cli.start import TEMPLATES, start_analysis
from cenote.common.errors import MISSING_FILE, NO_DATA, NOT_AVAILABLE
from cenote.common.machine import Machine
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import WorkflowModel
from cenote.language.schema.json_schema import Purpose, workflow_schema
from cenote.language.schema.stage import StageExecutionModel
from cenote.language.yaml.source import parse_yaml

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MACHINE = Machine(cpus=4, memory=16 * 10**9)
BLOCK = re.compile(r"(?ms)^(?:<!-- (?P<note>[^>\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$")
START = re.compile(r"(?m)^<!-- start: (\S+) -->$")
PROGRESS = re.compile(r"^ *[\d.]+(?: ?[\da-z]+)+  (?:\d+ of \d+ tasks?|saving and drawing)|^ *\S+ (?:ms|s) +planning")
WAITING = re.compile(r"^ *\S+ waits for pool '|^ *worker \S+ has not answered")
"""What a busy machine is told of on stderr, and a quiet one is not."""
EXIT_CODE = "echo $?"
AMOUNT = re.compile(r"\b(?:\d+h )?(?:\d+m )?\d[\d.]* ?(ms|s|min|kB|MB|GB)\b")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int
    language: str
    text: str
    note: str

    @property
    def file(self) -> str:
        """The name of the file that the block is, and perhaps a remark."""
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Desk:
    """Where the blocks of one page run."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    exit_code: int = 0


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: m.start("text")].count("\n") + 1, m["language"], m["text"], m["note"] or "")
        for m in BLOCK.finditer(text)
    ]


@pytest.fixture(autouse=True)
def a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("cenote.api.this_machine", lambda: MACHINE)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("CENOTE_SITE", "none")  # a page may `export` another; it is forgotten afterwards
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    restore = registry.forget_added()
    yield
    restore()


def test_there_is_something_to_run() -> None:
    assert sum(len(blocks_of(page)) for page in PAGES) > 50


def test_fences_are_closed_and_every_block_has_a_language_that_is_run() -> None:
    for page in PAGES:
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
        assert len(fences) == 2 * len(blocks_of(page)), f"a code block of {page.name} is not found"
        for block in blocks_of(page):
            assert block.language in RUN, f"{block}: nobody runs ```{block.language}"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page: Path) -> None:
    start = START.search(page.read_text(encoding="utf-8"))
    if start:
        start_analysis(Path(), TEMPLATES[start[1]], force=False)
    desk = Desk()
    for block in blocks_of(page):
        RUN[block.language](block, desk)


# --- YAML -----------------------------------------------------------------------------------------------------------


def check_yaml(block: Block, _: Desk) -> None:
    name, _comma, purpose = block.file.partition(", ")
    if name:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(block.text, encoding="utf-8")
    content = read_by_our_rules(block.text)
    if purpose:
        return
    flow = Path(name or "checked-block.yaml")
    if not name or "analysis" not in content:
        flow = Path("checked-block.yaml")
        flow.write_text(json.dumps(as_workflow(content)), encoding="utf-8")
    for written in (read_by_our_rules(flow.read_text(encoding="utf-8")), content if name else None):
        assert not refused_by_the_schema(written), f"{block}:\n" + "\n".join(refused_by_the_schema(written))
    found = cenote.load(flow).check(read_files=False).problems
    expected = (NOT_AVAILABLE, NO_DATA) if name else (NOT_AVAILABLE, NO_DATA, MISSING_FILE)  # which its reader has
    wrong = [problem for problem in found if problem.kind not in expected]
    assert not wrong, f"{block}:\n" + "\n".join(str(problem) for problem in wrong)


def read_by_our_rules(text: str) -> Any:
    """YAML 1.2, in which `on` is a word."""
    root = parse_yaml(text, file=None, layer="page").root
    return None if root is None else root.plain()


def refused_by_the_schema(content: Any) -> list[str]:
    """What an editor would underline."""
    if content is None:
        return []
    purpose: Purpose = "site" if "site" in content else "workflow" if "analysis" in content else "profile"
    validator = jsonschema.Draft202012Validator(workflow_schema(purpose))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(content)]


def as_workflow(content: Any) -> dict[str, Any]:
    """A whole workflow around a fragment: stages, keys of a stage, or keys of a workflow."""
    if isinstance(content, list):
        content = {"analysis": {"stages": content}}
    elif not is_part_of_workflow(content):
        content = {"analysis": {"stages": [{"id": "Stage", **what_is_drawn(content), **content}]}}
    flow = {"analysis": {"stages": [{"id": "Stage", "op": "hep.hist"}]}, **content}
    if Path("ops.py").exists():
        flow.setdefault("plugins", ["ops.py"])
    else:
        for stage in flow["analysis"]["stages"]:
            make_known(stage["op"])
    asked = [stage.get("execution") or {} for stage in flow["analysis"]["stages"]]
    named = [label for one in asked for key in ("require", "prefer", "fallback", "pool") for label in listed(one, key)]
    if named and not (flow.get("execution") or {}).get("pools"):
        flow["execution"] = {"pools": {name: {} for name in ("default", *named)}}
    return flow


class Somebodys(Operation):
    """Does nothing."""

    def run(self, events: Events) -> Result:
        return Result(events)


def make_known(name: str) -> None:
    """Somebody's own operation, on a page that does not show it."""
    if name.startswith("custom."):
        registry.add(PluginKind.OPERATION, name, Somebodys)


APART = {"op": "hep.hist", "params": {"axes": ["x"], "dataset_axis": True}}
DRAWN = {
    "hep.render.combine": APART,
    "hep.render.pyhf": APART,
    "hep.render.comparison": APART,
    "hep.render.cutflow_csv": {"op": "hep.selection.cutflow", "params": {"selection": ["x > 1"]}},
    "hep.render.heatmap2d": {"op": "hep.hist", "params": {"axes": ["x", "y"]}},
}


def what_is_drawn(content: dict[str, Any]) -> dict[str, Any]:
    """The operation of a stage of which a page shows the picture only."""
    render = content.get("render")
    return DRAWN.get(render.get("op", "") if isinstance(render, dict) else "", {"op": "hep.hist"})


def is_part_of_workflow(content: dict[str, Any]) -> bool:
    execution = content.get("execution")
    if isinstance(execution, dict) and set(execution) <= set(StageExecutionModel.model_fields):
        return False
    return set(content) <= set(WorkflowModel.model_fields)


def listed(mapping: dict[str, Any], key: str) -> list[str]:
    value = mapping.get(key) or []
    return [value] if isinstance(value, str) else value


# --- Python ---------------------------------------------------------------------------------------------------------


def run_python(block: Block, desk: Desk) -> None:
    if block.file:
        Path(block.file).write_text(block.text, encoding="utf-8")
        ast.parse(block.text)
    elif block.text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, desk.names, str(block), str(block.page), block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        told = io.StringIO()
        runner.run(test, out=told.write, clear_globs=False)
        desk.names.update(test.globs)
        assert not runner.failures, f"{block}:\n{told.getvalue()}"
    else:
        exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), desk.names)


# --- commands -------------------------------------------------------------------------------------------------------


class Messages(io.StringIO):
    """What a command writes to stderr goes to the same place as the rest, but for how it waits."""

    def __init__(self, told: io.StringIO) -> None:
        super().__init__()
        self._told, self._line = told, ""

    def write(self, text: str) -> int:
        *whole, self._line = (self._line + text).split("\n")
        self._told.writelines(f"{line}\n" for line in whole if not WAITING.match(line))
        return len(text)


def run_commands(block: Block, desk: Desk) -> None:
    """A command may fail only where the page asks for its exit code next."""
    typed = commands_of(block.text)
    for number, (command, shown) in enumerate(typed):
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(Messages(told)):
            desk.exit_code = run_command(shlex.split(command), desk.exit_code)
        if shown:
            compare(f"{block}: $ {command}", shown, told.getvalue().splitlines())
        may_fail = typed[number + 1 :][:1] and typed[number + 1][0] == EXIT_CODE
        assert desk.exit_code == 0 or may_fail, f"{block}: `{command}` failed:\n{told.getvalue()}"


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Every command with the lines that are shown under it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ ").partition("  #")[0].strip(), []))
        else:
            found[-1][1].append(line)
    return found


def run_command(words: list[str], last_exit_code: int) -> int:
    match words:
        case ["cenote", *arguments, "<", file]:
            with Path(file).open(encoding="utf-8") as content, pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "stdin", content)
                return exit_code_of(arguments)
        case ["cenote", *arguments]:
            registry.forget_added()
            return exit_code_of(arguments)
        case ["cd", folder]:
            os.chdir(folder)
        case ["export", assignment]:
            name, _, value = assignment.partition("=")
            os.environ[name] = value
        case ["echo", "$?"]:
            sys.stdout.write(f"{last_exit_code}\n")
        case ["cat", file]:
            sys.stdout.write(Path(file).read_text(encoding="utf-8"))
        case ["ls", *folders]:
            for entry in sorted(Path(*folders).iterdir()):
                sys.stdout.write("" if entry.name.startswith(".") else f"{entry.name}\n")
        case ["pixi", "run", "cenote", *arguments]:
            return exit_code_of(arguments)
        case [".", script]:
            assert script.endswith("/bin/activate"), script
        case ["python3" | "pip" | "uv" | "conda" | "pixi", *arguments]:
            installs_what_there_is(arguments)
        case ["pytest"]:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            sys.stdout.write(done.stdout)
            return done.returncode
        case ["make", target]:
            subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)
        case _:
            raise NotImplementedError(f"this test cannot run: {shlex.join(words)}")
    return 0


def installs_what_there_is(arguments: list[str]) -> None:
    """Not installed again here: what a command names must be there."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for word in arguments:
        extras = re.fullmatch(r"\.{1,2}\[(.+)\]", word)
        assert extras is None or set(extras[1].split(",")) <= set(known), word
        assert not word.endswith("constraints.txt") or (ROOT / "constraints.txt").is_file()
    if arguments[:1] == ["init"]:
        Path(arguments[1]).mkdir()


def compare(what: str, shown: list[str], told: list[str]) -> None:
    """Raises when a command printed something else than the page shows."""
    real = [comparable(line) for line in told if not PROGRESS.match(line)]
    pattern = "".join(as_pattern(line) for line in trimmed(shown))
    text = "".join(f"{line}\n" for line in trimmed(real))
    if not re.fullmatch(pattern, text):
        printed = "\n".join(line for line in told if not PROGRESS.match(line))
        pytest.fail(f"{what}\nprints\n{printed}\n\nand the page shows\n" + "\n".join(shown), pytrace=False)


def trimmed(lines: list[str]) -> list[str]:
    """Without empty lines, whose number says nothing."""
    return [line for line in lines if line.strip()]


def as_pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(.*\n)*?"
    return ".*".join(re.escape(comparable(part)) for part in line.split("…")) + "\n"


def comparable(line: str) -> str:
    return re.sub(r" {2,}", "  ", AMOUNT.sub("#", line.rstrip()))


def only_read(block: Block, _: Desk) -> None:
    assert block.text.strip()
    if block.file:
        Path(block.file).write_text(block.text, encoding="utf-8")


def read_json(block: Block, _: Desk) -> None:
    json.loads(block.text)


RUN: dict[str, Callable[[Block, Desk], None]] = {
    "yaml": check_yaml,
    "python": run_python,
    "console": run_commands,
    "json": read_json,
    "text": only_read,
}
