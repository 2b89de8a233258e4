"""A worker that does not see the run's folder hands its skims over, and the driver writes the same files."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common.errors import CenoteError
from cenote.execution.worker.results.bundle import pack, unpack
from cenote.execution.worker.results.skim import bring_home, write_skim
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.execution.worker.task_spec import Piece
from cenote.planning.plan import Partition, WriteStep

WRITE = WriteStep("parquet", {}, "skim.parquet", ("x",))
PIECE = Piece(Partition("data", "events", "a.root", 0, 3), part=0)


def skim(folder: Path) -> dict[str, object]:
    events = Events({"x": np.arange(3.0)}, size=3, dataset=DatasetInfo("data"))
    return write_skim(WRITE, events, str(folder), PIECE, lambda _, **_more: None)


def test_what_a_worker_hands_over_is_what_it_would_have_written(tmp_path: Path) -> None:
    seen, unseen = tmp_path / "seen", tmp_path / "unseen"
    seen.mkdir()
    written = skim(seen)
    handed_over = pack({"Hard:files": [skim(unseen)], "Hard": 7})
    assert not unseen.exists()
    unseen.mkdir()  # it is there, where the driver is
    home = bring_home(b"".join(handed_over), str(unseen), WrittenFiles(tmp_path / "work"), [])
    assert unpack(b"".join(home)) == {"Hard:files": [written], "Hard": 7}
    assert ak.from_parquet(unseen / str(written["path"])).x.tolist() == [0.0, 1.0, 2.0]
    assert [file.name for file in unseen.rglob("*") if file.is_file()] == ["00000.parquet"]


def test_what_lies_there_already_is_left_as_it_is(tmp_path: Path) -> None:
    packed = b"".join(pack({"Hard:files": [skim(tmp_path)]}))
    assert bring_home(packed, str(tmp_path), WrittenFiles(tmp_path / "work"), []) == [packed]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "/data/other/x", "/data/skims/../x"])
def test_a_worker_chooses_no_place_for_them(tmp_path: Path, path: str) -> None:
    planned = [WriteStep("parquet", {}, "/data/skims/{dataset}", keep=())]
    sent = b"".join(pack({"Hard:files": [{"path": path, "content": b"x"}]}))
    with pytest.raises(CenoteError, match="where no stage writes"):
        bring_home(sent, str(tmp_path / "products"), WrittenFiles(tmp_path / "work"), planned)
    assert list(tmp_path.iterdir()) == []
