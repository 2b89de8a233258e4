"""Check how `files` of a dataset become names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.language.workflow import Dataset
from cenote.planning.inputs.expand import expand_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.root", "a.root", "sub/c.root", "sub/deep/d.root", "notes.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def names(folder: Path, *written: str) -> list[str]:
    found = expand_files(Dataset("mc", written), folder)
    assert found.problems == ()
    return [str(Path(file).relative_to(folder)) if not file.startswith("root:") else file for file in found.files]


def problem(folder: Path, *written: str) -> Problem:
    found = expand_files(Dataset("mc", written), folder)
    assert found.files == ()
    (only,) = (*found.problems, *(one.problem for one in found.missing))
    return only


def test_a_pattern_gives_its_files_in_sorted_order(folder: Path) -> None:
    assert names(folder, "*.root") == ["a.root", "b.root"]


def test_two_stars_reach_into_folders(folder: Path) -> None:
    assert names(folder, "**/*.root") == ["a.root", "b.root", "sub/c.root", "sub/deep/d.root"]


def test_a_list_keeps_the_order_written(folder: Path) -> None:
    assert names(folder, "sub/c.root", "b.root", "a.root") == ["sub/c.root", "b.root", "a.root"]


def test_a_file_that_two_patterns_match_is_read_once(folder: Path) -> None:
    assert names(folder, "b.root", "*.root", "./a.root") == ["b.root", "a.root"]


def test_a_text_file_holds_names_relative_to_itself_and_comments(folder: Path) -> None:
    (folder / "sub" / "files.txt").write_text("# ours\nc.root  # the third\n\n../a.root\nroot://host//store/x.root\n")
    assert names(folder, "sub/files.txt") == ["sub/c.root", "a.root", "root://host//store/x.root"]


def test_a_list_that_names_itself_is_reported(folder: Path) -> None:
    (folder / "all.list").write_text("all.list\n")
    assert "names itself" in problem(folder, "all.list").message


def test_addresses_pass_unchanged(folder: Path) -> None:
    assert names(folder, "root://host:1094//store/a.root") == ["root://host:1094//store/a.root"]


def test_a_file_address_is_a_path(folder: Path) -> None:
    assert names(folder, f"file://{folder}/a.root") == ["a.root"]


def test_variables_and_the_home_folder_are_filled_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("WHERE", "sub")
    assert names(folder, "~/a.root", "$WHERE/c.root", "${WHERE}/deep/*.root") == [
        "a.root",
        "sub/c.root",
        "sub/deep/d.root",
    ]


def test_a_variable_that_is_not_set_is_named(folder: Path) -> None:
    assert "$CENOTE_NOT_THERE is not set" in problem(folder, "$CENOTE_NOT_THERE/*.root").message


def test_a_pattern_without_files_says_what_is_there(folder: Path) -> None:
    found = problem(folder, "*.rot")
    assert found.kind is errors.NO_DATA
    assert found.message == "no file matches '*.rot'"
    assert "a.root" in found.details[0]


def test_a_folder_that_does_not_exist_gets_the_nearest_name(folder: Path) -> None:
    assert problem(folder, "sup/*.root").hint == "did you mean 'sub'?"


def test_a_missing_file_gets_the_nearest_name(folder: Path) -> None:
    found = problem(folder, "sub/cc.root")
    assert found.kind is errors.BAD_INPUT
    assert found.hint == "did you mean 'c.root'?"


def test_a_folder_is_not_a_file(folder: Path) -> None:
    assert problem(folder, "sub").hint == "did you mean 'sub/*.root'?"


def test_a_pattern_of_addresses_says_what_to_do(folder: Path) -> None:
    assert "text file" in (problem(folder, "root://host//store/*.root").hint or "")


def test_a_dataset_without_files_is_reported(folder: Path) -> None:
    assert problem(folder).message == "dataset 'mc' names no files"


def test_a_list_that_is_not_text_is_reported(folder: Path) -> None:
    (folder / "files.txt").write_bytes(b"\xff\xfe\x00root")
    assert "not a text file" in problem(folder, "files.txt").message


def test_the_good_files_come_with_the_problems_of_the_others(folder: Path) -> None:
    found = expand_files(Dataset("mc", ("a.root", "x.root", "y.root")), folder)
    assert len(found.files) == 1
    assert len(found.missing) == 2


def test_what_is_not_beside_the_workflow_is_taken_from_the_current_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    for name in ("a.root", "data/e.root", "data/f.root"):
        (elsewhere / name).touch()
    monkeypatch.chdir(elsewhere)
    found = expand_files(Dataset("mc", ("a.root", "data/*.root")), folder)
    assert found.files == (str(folder / "a.root"), "data/e.root", "data/f.root")
    assert found.not_beside == ("data/*.root",)


@pytest.mark.parametrize("name", ["[b]", "a*", "what?", "{x} [!a]"])
def test_signs_in_the_name_of_the_folder_mean_themselves(folder: Path, name: str) -> None:
    odd = folder / name
    odd.mkdir()
    (odd / "one.root").touch()
    assert names(odd, "*.root") == names(odd, "one.root")
    assert str(odd) in problem(odd, "*.nothing").details[0]


FILESET = {"mc": {"files": {"a.root": "Events", "sub/c.root": {"object_path": "Events"}}, "metadata": {"xs": 1}}}
REPLICAS = [
    {"scope": "cms", "name": "x", "pfns": {"root://b//x.root": {"priority": 2}, "root://a//x.root": {"priority": 1}}},
    {"name": "y", "rses": {"SITE": ["root://c//y.root"]}},
]
PRINTED = """\
+---------+------+-------------------------------+
| SCOPE   | NAME | RSE: REPLICA                  |
|---------+------+-------------------------------|
| cms     | x    | SITE: root://a//x.root        |
| cms     | y    | SITE: root://c//y.root        |
+---------+------+-------------------------------+
"""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("fileset.json", json.dumps(FILESET), ["a.root", "sub/c.root"]),
        ("lists.yaml", "mc: [a.root, '*.root']\nother: [x.root]\n", ["a.root", "b.root"]),
        ("plain.json", json.dumps(["b.root"]), ["b.root"]),
        ("replicas.json", json.dumps(REPLICAS), ["root://a//x.root", "root://c//y.root"]),
        ("printed.txt", PRINTED, ["root://a//x.root", "root://c//y.root"]),
    ],
)
def test_listings_of_other_programs_name_files(folder: Path, name: str, content: str, expected: list[str]) -> None:
    (folder / name).write_text(content)
    assert names(folder, name) == expected


def test_a_listing_without_the_dataset_says_which_it_has(folder: Path) -> None:
    (folder / "fileset.json").write_text(json.dumps({"mcc": ["a.root"]}))
    found = problem(folder, "fileset.json")
    assert found.message.endswith("fileset.json has no dataset 'mc'")
    assert found.hint == "did you mean 'mcc'?"
    (folder / "broken.json").write_text('{"mc": [')
    assert "cannot be read as JSON" in problem(folder, "broken.json").message
