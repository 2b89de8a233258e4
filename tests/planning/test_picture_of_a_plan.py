"""The picture of a plan: stages in the segments of their pools, and what crosses between them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.stage_graphs import StageSketch, plan_of
from cenote.language.execution import Amounts, Pool
from cenote.planning.picture.cards import MOST_SEGMENTS, sketch
from cenote.planning.picture.draw import dot, mermaid, svg
from cenote.planning.picture.layers import Box, Words, arrange
from cenote.planning.picture.scene import compose
from cenote.planning.plan import Plan

GB = 10**9
POOLS = (
    Pool("default", workers=10, resources=Amounts(cpus=1, memory=4 * GB)),
    Pool("high_memory", workers=2, resources=Amounts(cpus=8, memory=128 * GB)),
    Pool("gpu", workers=1, resources=Amounts(gpus=1)),
)


def three_pools() -> Plan:
    return plan_of(
        [
            StageSketch("BuildIndex", pool="high_memory", op="custom.build_index", columns=("n_good",)),
            StageSketch(
                "RunInference", ("BuildIndex",), pool="gpu", op="custom.inference", columns=("score", "n_good")
            ),
            StageSketch("Select", ("RunInference",), op="hep.select"),
            StageSketch("MuonPt", ("Select",), op="hep.hist", product="histogram"),
            StageSketch("MuonEta", ("Select",), op="hep.hist", product="histogram"),
        ],
        POOLS,
    )


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]


def test_every_stage_pool_product_and_crossing_column_is_in_the_picture() -> None:
    shown = texts(svg(three_pools()))
    assert {"BuildIndex", "RunInference", "Select", "MuonPt", "custom.inference"} <= set(shown)
    assert {"high_memory", "gpu", "default", "histogram", "score", "n_good"} <= set(shown)
    assert "2 workers, each with 8 slots, 8 CPUs, 128 GB" in shown


def test_the_svg_stands_alone_and_is_the_same_every_time() -> None:
    picture = svg(three_pools())
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in picture
    assert picture == svg(three_pools())


def test_names_that_xml_or_mermaid_would_read_as_their_own_are_kept() -> None:
    plan = plan_of([StageSketch('a<b & "c"', op="x>y")], POOLS)
    assert 'a<b & "c"' in texts(svg(plan))
    assert "a#lt;b #amp; #quot;c#quot;" in mermaid(plan)


def test_mermaid_groups_stages_by_segment_and_names_what_crosses() -> None:
    lines = mermaid(three_pools()).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  subgraph s1["gpu"]' in lines
    assert '    c2["RunInference"]' in lines
    assert '  c2 -- "score<br/>n_good" --> c3' in lines
    assert '    c4["MuonPt (histogram)<br/>MuonEta (histogram)"]' in lines


def test_dot_groups_stages_by_segment_and_names_what_crosses() -> None:
    lines = dot(three_pools()).splitlines()
    assert lines[0].startswith('digraph "')
    assert lines[-1] == "}"
    assert '    c2 [label="RunInference"];' in lines
    assert '  c2 -> c3 [label="score\\nn_good"];' in lines
    assert any(line.startswith('  subgraph cluster_s1 { label="gpu\\n') for line in lines)


def test_names_that_dot_would_read_as_its_own_are_kept() -> None:
    plan = plan_of([StageSketch('a\\n"b"', op="x")], POOLS)
    assert r'label="a\\n\"b\""' in dot(plan)


def test_a_chain_is_one_card_and_so_are_the_ends_of_the_same_branch() -> None:
    cards = [[row.title for row in card.rows] for card in sketch(three_pools()).cards[1:]]
    assert cards == [["BuildIndex"], ["RunInference"], ["Select"], ["MuonPt", "MuonEta"]]
    chain = plan_of([StageSketch("a"), StageSketch("b", ("a",)), StageSketch("c", ("b",))], POOLS)
    assert [[row.title for row in card.rows] for card in sketch(chain).cards[1:]] == [["a", "b", "c"]]


def test_boxes_with_the_cards_of_stages_do_not_overlap() -> None:
    boxes = [s for s in compose(three_pools()).shapes if isinstance(s, Box) and s.fill == "#ffffff"]
    assert len(boxes) == 4 + 3  # cards, and labels of what crosses
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = [
                one.corner[axis] + one.size[axis] <= other.corner[axis]
                or other.corner[axis] + other.size[axis] <= one.corner[axis]
                for axis in (0, 1)
            ]
            assert any(apart), (one, other)


def test_everything_is_on_the_page() -> None:
    drawing = compose(three_pools())
    for shape in drawing.shapes:
        if isinstance(shape, Words):
            assert 0 <= shape.at[0] <= drawing.size[0]
            assert 0 <= shape.at[1] <= drawing.size[1]


@pytest.mark.parametrize("pools", [(None,), (None, "gpu"), (None, "gpu", "high_memory")])
def test_hundreds_of_stages_stay_a_picture(pools: tuple[str | None, ...]) -> None:
    stages = [StageSketch("s0")]
    stages += [StageSketch(f"s{i}", (f"s{(i - 1) // 3}",), pool=pools[i // 7 % len(pools)]) for i in range(1, 400)]
    plan = plan_of(stages, POOLS)
    picture = svg(plan)
    assert len(picture) < 200_000
    hidden = len(plan.segments) - MOST_SEGMENTS
    assert any(re.fullmatch(f"… and {hidden:,} more segments", text) for text in texts(picture)) == (hidden > 0)


def test_a_plan_without_stages_is_still_a_picture() -> None:
    assert texts(svg(plan_of([], POOLS)))[0] == "flow.yaml"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, tuple[float, float]], list[tuple[str, str]]]:
    size = draw(st.integers(1, 12))
    sizes = {f"n{i}": (draw(st.floats(1, 100)), draw(st.floats(1, 100))) for i in range(size)}
    pairs = [(f"n{i}", f"n{j}") for i in range(size) for j in range(i + 1, size)]
    return sizes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []


@given(graphs())
@settings(deadline=None)
def test_arranged_boxes_go_forward_and_never_overlap(
    graph: tuple[dict[str, tuple[float, float]], list[tuple[str, str]]],
) -> None:
    sizes, edges = graph
    found = arrange(sizes, edges, gap=(10, 5))
    for source, target in edges:
        assert found.corners[source][0] + sizes[source][0] <= found.corners[target][0] - 10 + 1e-6
    names = list(sizes)
    for i, one in enumerate(names):
        x, y = found.corners[one]
        assert x >= -1e-6
        assert x + sizes[one][0] <= found.width + 1e-6
        assert y >= -1e-6
        assert y + sizes[one][1] <= found.height + 1e-6
        for other in names[i + 1 :]:
            u, v = found.corners[other]
            if u == x:
                assert y + sizes[one][1] <= v + 1e-6 or v + sizes[other][1] <= y + 1e-6
