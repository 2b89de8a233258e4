"""The stock: what was packed is found again, by one process or many, and only what nobody uses is removed."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.execution.packing.archive import PackingStep, unheard
from cenote.execution.packing.software import Software
from cenote.execution.packing.stock import Packed, Stock, StockRecord, Wanted
from cenote.execution.packing.write import Member, write_archive

KEY = Wanted("packed-conda", "content 1", "gzip", "/the/prefix")
OTHER = Wanted("packed-conda", "content 2", "gzip", "/the/prefix")


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return Stock(tmp_path / "stock")


def packer(content: bytes = b"content", calls: list[Path] | None = None) -> Callable[[Path, Path], Packed]:
    def pack(file: Path, staging: Path) -> Packed:
        if calls is not None:
            calls.append(staging)
        written = write_archive(file, [Member("file", content)], "gzip", unheard, total=len(content))
        return Packed(written, Software("3.12.1", "linux-64", {"numpy": "2.1"}), facts={"lock": "abc"})

    return pack


def never(*_: Path) -> Packed:
    raise AssertionError("it is packed already")


def obtain(stock: Stock, wanted: Wanted = KEY, content: bytes = b"content") -> StockRecord:
    return stock.obtain(wanted, packer(content), unheard)


def names(stock: Stock) -> list[str]:
    return sorted(path.name for path in stock.folder.iterdir() if not path.name.endswith(".lock"))


def test_what_was_packed_is_not_packed_again(stock: Stock) -> None:
    first = obtain(stock)
    again = stock.obtain(KEY, never, unheard)
    assert (again.digest, again.made_at) == (first.digest, first.made_at)
    assert again.used_at >= first.used_at
    assert stock.find(OTHER) is None


def test_the_record_tells_what_it_is(stock: Stock) -> None:
    record = obtain(stock)
    assert (record.kind, record.source, record.python) == ("packed-conda", "/the/prefix", "3.12.1")
    assert (record.packages, record.facts) == ({"numpy": "2.1"}, {"lock": "abc"})
    archive = stock.archive(record)
    assert archive.file.name == f"packed-conda-{record.digest}.tar.gz"
    assert archive.file.stat().st_size == archive.size == record.size


def test_nobody_else_sees_what_is_in_there(stock: Stock) -> None:
    obtain(stock)
    assert stat.S_IMODE(stock.folder.stat().st_mode) == 0o700


def test_another_way_of_compressing_is_another_archive(stock: Stock) -> None:
    obtain(stock)
    assert stock.find(Wanted(KEY.kind, KEY.content, "zstd", KEY.source)) is None


def test_an_archive_that_is_gone_or_cut_off_is_packed_again(stock: Stock) -> None:
    file = stock.archive(obtain(stock)).file
    file.write_bytes(b"cut off")
    calls: list[Path] = []
    stock.obtain(KEY, packer(calls=calls), unheard)
    file.unlink()
    stock.obtain(KEY, packer(calls=calls), unheard)
    assert len(calls) == 2


def test_of_two_that_want_the_same_one_packs_and_the_other_waits(stock: Stock) -> None:
    begun, go_on = threading.Event(), threading.Event()
    steps: list[PackingStep] = []

    def slowly(file: Path, staging: Path) -> Packed:
        begun.set()
        assert go_on.wait(60)
        return packer()(file, staging)

    def hear(step: PackingStep) -> None:
        steps.append(step)
        go_on.set()

    first = threading.Thread(target=stock.obtain, args=(KEY, slowly, unheard))
    first.start()
    assert begun.wait(60)
    record = stock.obtain(KEY, never, hear)
    first.join()
    assert {step.what for step in steps} == {"waiting for another process that packs the same"}
    assert stock.find(KEY) is not None
    assert record.digest


def test_what_a_killed_process_left_is_in_nobodys_way(stock: Stock, tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from cenote.execution.packing.archive import unheard
from cenote.execution.packing.stock import Stock, Wanted

def pack(file, staging):
    (staging / "half").write_bytes(bytes(1000))
    Path({str(tmp_path / "begun")!r}).touch()
    time.sleep(600)

Stock(Path({str(stock.folder)!r})).obtain(Wanted({KEY.kind!r}, {KEY.content!r}, "gzip", ""), pack, unheard)
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    assert stock.clean(lambda _: True).strays == 0  # it is being written
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert stock.clean(lambda _: True).strays == 1000
    obtain(stock)
    assert len(names(stock)) == 2


def test_a_failed_packing_leaves_nothing(stock: Stock) -> None:
    def fail(file: Path, staging: Path) -> Packed:
        packer()(file, staging)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stock.obtain(KEY, fail, unheard)
    assert names(stock) == []
    assert stock.find(KEY) is None


def test_a_full_disk_is_named_with_its_folder_and_leaves_nothing(stock: Stock) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(CenoteError) as caught:
            obtain(stock, content=os.urandom(50_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    (problem,) = caught.value.problems
    assert (problem.kind.name, str(stock.folder) in problem.message) == ("disk-full", True)
    assert names(stock) == []


def test_what_cannot_be_read_is_named_itself(stock: Stock, tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    def pack(file: Path, staging: Path) -> Packed:
        missing.read_bytes()
        return never(file, staging)

    with pytest.raises(CenoteError, match=str(missing)):
        stock.obtain(KEY, pack, unheard)


def test_damage_is_found_by_reading_everything_again(stock: Stock) -> None:
    record = obtain(stock, content=os.urandom(10_000))
    steps: list[PackingStep] = []
    assert stock.damage(record, steps.append) == ""
    assert steps[-1].done == steps[-1].total == record.size
    file = stock.archive(record).file
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    assert "damaged" in stock.damage(record, unheard)
    stock.forget(record)
    assert stock.damage(obtain(stock), unheard) == ""
    file.unlink()
    assert "missing" in stock.damage(record, unheard)


def test_only_what_is_old_is_cleaned_away(stock: Stock) -> None:
    old, new = obtain(stock), obtain(stock, OTHER, b"other")
    cleaned = stock.clean(lambda record: record.key == old.key)
    assert [record.key for record in cleaned.removed] == [old.key]
    assert [record.key for record in stock.records()] == [new.key]
    assert stock.find(OTHER) is not None


def test_what_a_run_uses_stays(stock: Stock) -> None:
    record = obtain(stock)
    held = stock.hold(record)
    cleaned = stock.clean(lambda _: True)
    assert (len(cleaned.removed), len(cleaned.in_use)) == (0, 1)
    assert stock.find(KEY) is not None
    del held
    assert len(stock.clean(lambda _: True).removed) == 1
    with pytest.raises(FileNotFoundError):
        stock.hold(record)
    assert names(stock) == []


def test_an_archive_of_two_records_goes_with_the_last(stock: Stock) -> None:
    first, second = obtain(stock), obtain(stock, OTHER)
    assert first.digest == second.digest
    stock.clean(lambda record: record.key == first.key)
    assert stock.find(OTHER) is not None
    assert len(stock.clean(lambda _: True).removed) == 1
    assert names(stock) == []


def test_archives_without_a_record_are_strays(stock: Stock) -> None:
    record = obtain(stock)
    stock.forget(record)
    assert stock.clean(lambda _: False).strays == record.size
    assert names(stock) == []


def test_an_empty_stock_has_nothing_to_clean(stock: Stock) -> None:
    assert stock.clean(lambda _: True).removed == ()
    assert not stock.folder.exists()
    assert stock.records() == []


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "stock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CenoteError, match="not a folder of your own"):
        obtain(Stock(tmp_path / "stock"))


def test_without_a_home_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", "/dev/null/cenote")
    with pytest.raises(CenoteError, match="CENOTE_CACHE"):
        obtain(Stock())
