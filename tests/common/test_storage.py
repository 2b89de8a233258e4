"""What file systems hold can be removed, whatever programs made of it."""

from __future__ import annotations

import os
from pathlib import Path

from cenote.common.storage import remove_tree, staying_here


def test_a_folder_is_removed_however_deep_and_protected_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    (kept / "inside").mkdir(parents=True)
    gone.mkdir()
    with staying_here():
        os.chdir(gone)
        for _ in range(3000):  # longer than any name may be
            Path("link").symlink_to(kept)
            Path("file").touch()
            Path("other").mkdir()
            Path("deeper").mkdir()
            os.chdir("deeper")
            Path("..").chmod(0o500)
    remove_tree(gone)
    remove_tree(gone)  # one that is not there is not an error
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inside", "kept"]


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "kept" / "inside").is_dir()
