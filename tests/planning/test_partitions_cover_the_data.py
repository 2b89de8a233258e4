"""Check how input files are cut into partitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cenote.analysis.sources.interface import ColumnInfo, FileInfo
from cenote.common import errors
from cenote.planning.plan import Partition
from cenote.planning.tasks.partitions import MOST_BYTES, MOST_EVENTS, TARGET_EVENTS, make_partitions, missing_columns


def a_file(
    entries: int,
    *,
    url: str = "a.root",
    bytes_per_event: int = 4,
    boundaries: tuple[int, ...] = (),
    names: tuple[str, ...] = ("x",),
) -> FileInfo:
    columns = {name: ColumnInfo("float", bytes_per_event * entries) for name in names}
    return FileInfo(url, 1, "stamp", entries, columns, boundaries)


def ranges(partitions: tuple[Partition, ...]) -> list[tuple[int, int]]:
    return [(partition.start, partition.stop) for partition in partitions]


def cut(*infos: FileInfo, **limits: int | None) -> tuple[Partition, ...]:
    return make_partitions(infos, ["x"], dataset="mc", source="events", **limits)


def test_a_small_file_is_one_partition() -> None:
    assert ranges(cut(a_file(1000))) == [(0, 1000)]


def test_cuts_fall_on_the_clusters_of_the_file() -> None:
    clusters = (*range(0, 1_000_001, 30_000), 1_000_000)
    found = ranges(cut(a_file(1_000_000, boundaries=clusters)))
    assert len(found) == 5
    assert {start for start, _ in found} <= set(clusters)


def test_a_cluster_somewhat_larger_than_the_target_stays_whole() -> None:
    assert ranges(cut(a_file(800_000, boundaries=(0, 400_000, 800_000)))) == [(0, 400_000), (400_000, 800_000)]


def test_wide_reads_are_cut_to_the_memory_target_even_inside_a_cluster() -> None:
    found = cut(a_file(100_000, bytes_per_event=10_000, boundaries=(0, 100_000)))
    assert max(partition.events for partition in found) * 10_000 <= MOST_BYTES


def test_columns_that_nobody_reads_do_not_matter() -> None:
    info = a_file(TARGET_EVENTS, bytes_per_event=10_000, names=("x", "unused"))
    assert len(make_partitions([info], [], dataset="mc", source="events")) == 1


def test_a_dotted_name_counts_the_bytes_of_its_column() -> None:
    info = a_file(100_000, bytes_per_event=10_000, names=("Muon_pt",))
    assert len(make_partitions([info], ["Muon.pt"], dataset="mc", source="events")) > 1


def test_an_explicit_chunk_size_is_obeyed_exactly() -> None:
    found = cut(a_file(1000, boundaries=(0, 500, 1000)), chunk_size=300)
    assert ranges(found) == [(0, 300), (300, 600), (600, 900), (900, 1000)]


def test_nevents_counts_over_the_files_of_the_dataset_in_order() -> None:
    found = cut(a_file(100, url="a"), a_file(100, url="b"), a_file(100, url="c"), most=150)
    assert [(partition.url, partition.events) for partition in found] == [("a", 100), ("b", 50)]


def test_start_and_stop_count_within_each_file() -> None:
    found = cut(a_file(100, url="a"), a_file(15, url="b"), start=10, stop=20)
    assert ranges(found) == [(10, 20), (10, 15)]


def test_an_empty_file_gives_no_partition() -> None:
    assert [partition.url for partition in cut(a_file(0, url="empty"), a_file(5, url="full"))] == ["full"]


def test_a_dataset_without_events_gives_one_empty_partition() -> None:
    assert ranges(cut(a_file(0, url="a"), a_file(0, url="b"))) == [(0, 0)]
    assert ranges(cut(a_file(10), start=50)) == [(0, 0)]
    assert ranges(cut(a_file(10), most=0)) == [(0, 0)]


def test_a_dataset_without_files_gives_nothing() -> None:
    assert cut() == ()


@st.composite
def files(draw: st.DrawFn) -> FileInfo:
    bytes_per_event = draw(st.sampled_from([0, 1, 40, 3000, 10**9]))
    entries = draw(st.integers(0, 2000 if bytes_per_event == 10**9 else 3_000_000))
    inner = draw(st.lists(st.integers(0, entries), max_size=30))
    boundaries = tuple(sorted({0, entries, *inner})) if draw(st.booleans()) else ()
    return a_file(entries, bytes_per_event=bytes_per_event, boundaries=boundaries)


@given(
    st.lists(files(), max_size=4),
    st.one_of(st.none(), st.integers(20_000, 3_000_000)),
    st.one_of(st.none(), st.integers(0, 3_000_000)),
    st.one_of(st.none(), st.integers(0, 3_000_000)),
    st.one_of(st.none(), st.integers(0, 9_000_000)),
)
def test_partitions_cover_exactly_what_was_asked_for_and_never_overlap(
    infos: list[FileInfo], chunk_size: int | None, start: int | None, stop: int | None, nevents: int | None
) -> None:
    infos = [replace(info, url=str(number)) for number, info in enumerate(infos)]
    found = make_partitions(
        infos, ["x"], dataset="d", source="s", chunk_size=chunk_size, start=start, stop=stop, most=nevents
    )
    expected: dict[str, tuple[int, int]] = {}
    left = nevents if nevents is not None else 10**12
    for info in infos:
        low = min(start or 0, info.entries)
        high = min(info.entries if stop is None else stop, info.entries, low + left)
        if high > low:
            expected[info.url] = (low, high)
            left -= high - low
    if not expected:
        assert ranges(found) == ([(0, 0)] if infos else [])
        return
    assert list(dict.fromkeys(partition.url for partition in found)) == list(expected)
    for url, (low, high) in expected.items():
        of_file = [partition for partition in found if partition.url == url]
        assert of_file[0].start == low
        assert of_file[-1].stop == high
        assert all(before.stop == after.start for before, after in pairwise(of_file))
        assert all(0 < partition.events <= max(MOST_EVENTS, chunk_size or 0) for partition in of_file)


def test_a_branch_that_one_file_lacks_is_named_with_that_file() -> None:
    infos = [a_file(10, url="a.root", names=("x", "y")), a_file(10, url="b.root", names=("x",))]
    (problem,) = missing_columns(infos, ["x", "y"])
    assert problem.kind is errors.BAD_INPUT
    assert problem.message == "branch 'y' is missing in 1 of 2 files"
    assert problem.details == ("b.root",)


def test_a_branch_that_no_file_has_gets_the_nearest_name() -> None:
    (problem,) = missing_columns([a_file(10, names=("Muon_pt",))], ["Mun_pt"])
    assert problem.kind is errors.UNKNOWN_COLUMN
    assert problem.hint == "did you mean 'Muon_pt'?"


def test_dotted_names_are_not_missing() -> None:
    assert missing_columns([a_file(10, names=("Muon_pt",))], ["Muon.pt", "Muon/pt"]) == []
