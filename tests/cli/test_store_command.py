"""Test `cenote store`: show, verify, clean, key, trust."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cenote.cli.main import cli
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runtime.result_store.store import ResultStore, private_part
from cenote.execution.worker.results.bundle import pack


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of results, and a user without a past."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CENOTE_STORE")
    return tmp_path / "cache" / "results"


def fill(folder: Path, results: int = 3) -> None:
    store = ResultStore(private_part(folder), limit=10**9, warn=pytest.fail)
    for number in range(results):
        products = {"Mass": os.urandom(1000), "Cuts": number}
        ids = {name: hashlib.blake2b(f"{name}{number}".encode(), digest_size=16).digest() for name in products}
        store.add(memoryview(b"".join(pack(products))), ids, seconds=1.0)
    store.close()


def cenote(*words: str) -> Result:
    return CliRunner().invoke(cli, ["store", *words], standalone_mode=False)


def test_what_a_run_keeps_itself_is_shown_by_its_folder(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "out")
    run.prepare(fresh=True)
    run.journal.touch()
    fill(run.results)
    assert cenote("show", "--path", str(run.path)).output.splitlines()[-1].startswith("6 results, ")


def test_what_is_kept_is_shown(folder: Path) -> None:
    assert cenote("show").output == f"no results in {folder}\n"
    fill(folder)
    shown = cenote("show").output
    assert [line.split()[:3] for line in shown.splitlines()[1:-1]] == [["Mass", "3", "3.02"], ["Cuts", "3", "15"]]
    assert shown.splitlines()[-1].startswith("6 results, ")
    told = json.loads(cenote("show", "--json").output)
    assert (told["folder"], told["shared"], told["results"]) == (str(folder), False, 6)
    assert [(one["name"], one["results"]) for one in told["products"]] == [("Mass", 3), ("Cuts", 3)]
    assert json.loads(cenote("show", "--path", str(folder), "--json").output)["results"] == 6


def test_damage_is_named_and_not_found_again(folder: Path) -> None:
    fill(folder)
    assert cenote("verify").output == f"{folder}: no damage\n"
    (path,) = (folder / "own" / "packs").glob("*.pack")
    content = bytearray(path.read_bytes())
    content[-500] ^= 1
    path.write_bytes(content)
    told = json.loads(cenote("verify", "--json").output)
    assert not told["ok"]
    assert [(one["pack"], one["product"]) for one in told["damaged"]] == [(str(path), "Mass")]
    store = ResultStore(private_part(folder), limit=10**9, warn=pytest.fail)
    assert store.find([bytes.fromhex(told["damaged"][0]["id"])]) == set()
    assert cenote("verify").output == f"{folder}: no damage\n"


def test_results_are_removed_by_age_by_size_or_all(folder: Path) -> None:
    assert cenote("clean", "--all").output == f"{folder}: nothing to remove\n"
    fill(folder, 20)
    assert cenote("clean").output == f"{folder}: nothing to remove\n"
    assert "removed" in cenote("clean", "--to", "10KB").output
    left = json.loads(cenote("show", "--json").output)
    assert 0 < left["bytes"] <= 10_000
    assert json.loads(cenote("clean", "--older-than", "1h", "--json").output)["removed_bytes"] == 0
    assert "removed" in cenote("clean", "--all").output
    assert json.loads(cenote("show", "--json").output)["results"] == 0
    refused = cenote("clean", "--to", "much").exception
    assert isinstance(refused, CenoteError)
    assert "--to" in str(refused)


def test_results_whose_key_is_lost_are_removed(folder: Path) -> None:
    fill(folder)
    (folder / "own" / "key").unlink()
    assert "removed" in cenote("clean").output
    assert list((folder / "own" / "packs").iterdir()) == []


def test_what_a_run_in_progress_found_is_not_removed(folder: Path) -> None:
    fill(folder)
    run = ResultStore(private_part(folder), limit=10**9, warn=pytest.fail)
    one = hashlib.blake2b(b"Mass1", digest_size=16).digest()
    assert run.find([one]) == {one}
    cenote("clean", "--all")
    assert json.loads(cenote("show", "--json").output)["results"] == 1
    run.close()


def test_a_key_that_one_prints_another_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = cenote("key").output.strip()
    assert key.startswith("cenote-store ")
    assert cenote("key").output.strip() == key
    (tmp_path / "keys").write_text(f"{key}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert cenote("trust", str(tmp_path / "keys")).output.endswith(": trusted\n")
    assert cenote("trust", key).output.endswith(": was trusted already\n")
    assert json.loads(cenote("trust", key, "--json").output)["new"] == []
    refused = cenote("trust", "nothing").exception
    assert isinstance(refused, CenoteError)
    assert "no key of a store" in str(refused)


def test_a_store_of_another_version_is_left_alone(folder: Path) -> None:
    fill(folder)
    (folder / "own" / "version").write_text("7\n")
    for words in (["show"], ["verify"], ["clean", "--all"]):
        refused = cenote(*words).exception
        assert isinstance(refused, CenoteError)
        assert "another version" in str(refused)
