"""Machines are in odd states: each ends in an error of its own with a hint, and never in a fault of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import cenote
from cenote.cli.main import exit_code_of
from cenote.common.errors import CenoteError

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: ["data/*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 1000}}
    analysis:
      stages:
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 20, low: 0, high: 200}}]}
"""
LONG = "x" * 300


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    (desk.folder / "data").mkdir()
    desk.muons("data/a.root", events=500)
    monkeypatch.chdir(desk.folder)
    return desk.write("flow.yaml", FLOW)


DAMAGES = {
    "empty": b"",
    "cut": None,
    "binary": bytes(range(256)) * 20,
    "list": b"[1, 2]\n",
    "other": b'{"status": 1, "segments": 2, "type": 3}\n',
}
NEEDS = {  # the file that is damaged → what cannot be answered without it
    "summary.json": {"status", "status --json"},
    "plan.json": {"status", "status --json", "why", "cancel"},
    "journal.jsonl": {"status", "status --json", "why", "cancel"},
}


def test_damaged_files_of_a_run_are_told_of_and_made_anew(
    desk: Desk, flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cenote.load(flow).run("whole")
    for name, answers in NEEDS.items():
        for how, damage in DAMAGES.items():
            shutil.copytree("whole", "run")
            file = desk.folder / "run" / name
            text = file.read_bytes()
            file.write_bytes(text[: len(text) // 2] if damage is None else damage)
            codes = {
                words: exit_code_of([*words.split()[:1], "run", *words.split()[1:]])
                for words in ("status", "status --json", "why", "cancel", "report", "clean")
            }
            said = capsys.readouterr().err
            refused = {words for words, code in codes.items() if code == 35}
            whole = name == "journal.jsonl" and how in ("empty", "cut")  # what is left of it is a journal
            assert refused == (set() if whole else answers), (name, how, codes, said)
            assert codes["report"] == 0
            assert whole or "--resume` writes it anew" in said
            if name == "summary.json":
                with pytest.raises(CenoteError, match=r"summary\.json is damaged"):
                    _ = cenote.open_run("run").status
            assert cenote.load(flow).run("run", resume=True).status == "succeeded"
            shutil.rmtree("run")


def test_paths_that_lead_nowhere(desk: Desk, flow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("loop.yaml", "loop", "loop.py"):
        (desk.folder / name).symlink_to(name)
    text = flow.read_text()
    flows = {
        "plugin-loop": f"plugins: [loop.py]\n{text}",
        "plugin-long": f"plugins: [{LONG}.py]\n{text}",
        "data-loop": text.replace("data/*.root", "loop/*.root"),
        "data-long": text.replace("data/*.root", LONG),
        "include-loop": f"include: loop.yaml\n{text}",
        "include-long": f"include: {LONG}.yaml\n{text}",
        "stage-long": text.replace("id: H", f"id: H{LONG}"),
    }
    for name, content in flows.items():
        (desk.folder / f"{name}.yaml").write_text(content)
    calls = [["check", "loop.yaml"], ["check", LONG], *(["run", f"{name}.yaml", "--quiet"] for name in flows)]
    for folder in ("loop", LONG):
        calls += [[word, folder] for word in ("status", "why", "report", "cancel", "clean", "init")]
        calls += [[word, "flow.yaml", "--out", folder] for word in ("run", "probe")]
        calls += [["demo", "--out", folder], ["check", "flow.yaml", "--profile", f"{folder}.yaml"]]
    for words in calls:
        code = exit_code_of(words)
        said = capsys.readouterr().err
        assert code in (0, 2, 10, 11, 34), (words, code, said)
        assert "fault" not in said
        assert words[0] == "clean" or code != 0, words


def test_a_working_directory_that_is_gone(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = desk.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert exit_code_of(["run", str(flow), "--out", str(desk.folder / "out")]) == 34
    assert "the working directory no longer exists" in capsys.readouterr().err
    monkeypatch.chdir(desk.folder)


@pytest.fixture
def stranger() -> list[str]:
    """A command in front of others, with which they run as a user whom the machine does not know."""
    rights = "+dac_override,+dac_read_search"  # of root, for a Python that lies in root's own folder
    words = ["setpriv", "--reuid", "12345", "--clear-groups", "--inh-caps", rights, "--ambient-caps", rights]
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root may become another user")
    return words


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user can reach; those of pytest are one's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.parametrize("home", [None, "a file", "nowhere"])
def test_a_user_whom_nobody_knows_and_who_has_no_home(
    desk: Desk, flow: Path, stranger: list[str], everybodys: Path, home: str | None
) -> None:
    assert flow.exists()
    folder = everybodys / "desk"
    shutil.copytree(desk.folder, folder)
    folder.chmod(0o777)
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME")}
    environment.pop("CENOTE_CACHE")
    environment.pop("CENOTE_SITE")
    (folder / "a file").touch()
    if home:
        environment["HOME"] = str(folder / home)
    for words in (["check", "flow.yaml"], ["run", "flow.yaml", "--out", "out", "--quiet"], ["site", "show"]):
        done = subprocess.run(
            [*stranger, sys.executable, "-m", "cenote", *words],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)
    assert not (folder / "~").exists()


def test_a_home_that_cannot_be_read_says_how_to_go_without(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flow.exists()
    monkeypatch.delenv("CENOTE_SITE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.folder / LONG))  # what root may not read either
    assert exit_code_of(["check", "flow.yaml"]) == 34
    assert "CENOTE_SITE=none" in capsys.readouterr().err


STREAMS = {
    ">&-": 141,
    "2>&-": 0,
    ">&- 2>&-": 141,
    "<&-": 0,
    "> /dev/full": 31,
    "2> /dev/full": 0,
}


@pytest.mark.parametrize("end", STREAMS)
def test_streams_that_are_closed(desk: Desk, flow: Path, end: str) -> None:
    assert flow.exists()
    assert typed(desk, f"schema {end}") == STREAMS[end]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("2>&1 | head -1", 141),
        ("2>&1 >/dev/null | head -1", 0),
        (">&- 2>&-", 141),
        ("2>&-", 0),
    ],
)
def test_a_run_goes_on_though_nobody_reads_what_it_says(desk: Desk, flow: Path, end: str, code: int) -> None:
    assert flow.exists()
    assert typed(desk, f"run flow.yaml --out out {end}; exit ${{PIPESTATUS[0]}}") == code
    run = cenote.open_run(desk.folder / "out")
    assert (run.status, run.products) == ("succeeded", ("H",))
    assert (desk.folder / "out" / "report.html").is_file()


def typed(desk: Desk, words: str) -> int:
    """The exit code of a line as a shell takes it."""
    line = f'"{sys.executable}" -m cenote {words}'
    return subprocess.run(["bash", "-c", line], cwd=desk.folder, capture_output=True, timeout=120).returncode


@pytest.mark.parametrize("odd", ["workflow", "out"])
def test_names_that_are_not_utf8_are_refused(flow: Path, odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    raw = Path(os.fsdecode(b"raw\xff"))
    raw.mkdir()
    (raw / "flow.yaml").write_bytes(flow.read_bytes())
    command = ["run", str(raw / "flow.yaml")] if odd == "workflow" else ["run", str(flow), "--out", str(raw / "out")]
    assert exit_code_of(command) == 34
    assert "not UTF-8" in capsys.readouterr().err
