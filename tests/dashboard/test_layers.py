"""The layout of graphs: it ends, boxes never overlap, and edges go to the right."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockwork.dashboard.layers import Drawing, layered

WIDE, HIGH = 100, 30


def drawn(*edges: str, alone: str = "") -> Drawing:
    """Lay out the edges, such as "ab", and the nodes of those."""
    nodes = dict.fromkeys([*"".join(edges), *alone])
    return layered(list(nodes), [(edge[0], edge[1]) for edge in edges], WIDE, HIGH)


def overlapping(drawing: Drawing) -> list[tuple[str, str]]:
    return [
        (one, other)
        for (one, (x1, y1)), (other, (x2, y2)) in combinations(drawing.places.items(), 2)
        if abs(x1 - x2) < WIDE and abs(y1 - y2) < HIGH
    ]


def crossed(drawing: Drawing) -> list[tuple[str, str]]:
    """The boxes through which a line passes on its level parts, which are where other boxes may be."""
    found = []
    for line in drawing.lines:
        for y, right in re.findall(r" ([\d.]+)H([\d.]+)", line.path):
            found += [
                (f"{line.start}{line.end}", node)
                for node, (x, top) in drawing.places.items()
                if x < float(right) <= x + WIDE and top < float(y) < top + HIGH
            ]
    return found


def test_nothing_is_an_empty_drawing() -> None:
    assert layered([], [], WIDE, HIGH) == Drawing({}, [], 0.0, 0.0)


def test_chain_is_a_straight_line_to_the_right() -> None:
    drawing = drawn("ab", "bc", "cd")
    assert {y for _, y in drawing.places.values()} == {0.0}
    assert [drawing.places[node][0] for node in "abcd"] == [0, 164, 328, 492]
    assert (drawing.width, drawing.height) == (592, HIGH)


def test_diamond_is_symmetric() -> None:
    drawing = drawn("ab", "ac", "bd", "cd")
    places = drawing.places
    assert places["b"][0] == places["c"][0]
    assert places["a"][1] == places["d"][1] == (places["b"][1] + places["c"][1]) / 2


def test_box_that_nothing_leads_to_is_next_to_its_successor() -> None:
    drawing = drawn("ab", "bc", "cd", "xd")
    assert drawing.places["x"][0] == drawing.places["c"][0]


def test_line_over_several_layers_passes_no_box() -> None:
    drawing = drawn("ab", "bc", "cd", "ad", "ac", "bd")
    assert not crossed(drawing)
    assert not overlapping(drawing)


def test_nodes_are_sorted_so_that_lines_do_not_cross() -> None:
    drawing = drawn("ax", "by", "cz", "az", alone="")
    order = sorted("abc", key=lambda node: drawing.places[node][1])
    assert sorted("xyz", key=lambda node: drawing.places[node][1]) in (list("xzy"), list("yzx"))
    assert order in (list("acb"), list("bca"))


def test_cycle_is_cut_and_the_edge_back_is_apart_from_the_other() -> None:
    drawing = drawn("ab", "ba")
    there, back = drawing.lines
    assert (there.start, there.end, there.back) == ("a", "b", False)
    assert (back.start, back.end, back.back) == ("b", "a", True)
    assert there.path != back.path


def test_long_edge_back_passes_no_box() -> None:
    drawing = drawn("ab", "bc", "cd", "da", "xb")
    assert [(line.start, line.end) for line in drawing.lines if line.back] == [("d", "a")]
    assert not crossed(drawing)


def test_edge_to_itself_is_left_out() -> None:
    assert drawn("ab", "aa").lines == drawn("ab").lines


def test_long_chain_needs_no_deep_stack() -> None:
    nodes = [str(number) for number in range(3000)]
    drawing = layered(nodes, list(pairwise(nodes)), WIDE, HIGH)
    assert len({x for x, _ in drawing.places.values()}) == 3000


@pytest.mark.parametrize("many", [1, 7, 40])
def test_map_of_many_is_one_layer_of_boxes_apart(many: int) -> None:
    nodes = ["first", *map(str, range(many)), "last"]
    edges = [("first", node) for node in nodes[1:-1]] + [(node, "last") for node in nodes[1:-1]]
    drawing = layered(nodes, edges, WIDE, HIGH)
    assert not overlapping(drawing)
    assert len({x for x, _ in drawing.places.values()}) == 3


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_graph_of_any_shape_is_laid_out(pairs: list[tuple[int, int]]) -> None:
    nodes = [str(number) for number in range(10)]
    drawing = layered(nodes, [(str(one), str(other)) for one, other in pairs], WIDE, HIGH)
    assert set(drawing.places) == set(nodes)
    assert not overlapping(drawing)
    assert not crossed(drawing)
    wanted = {(str(one), str(other)) for one, other in pairs if one != other}
    assert {(line.start, line.end) for line in drawing.lines} == wanted
    for line in drawing.lines:
        assert line.back or drawing.places[line.start][0] < drawing.places[line.end][0]
    if all(one < other for one, other in pairs):
        assert not any(line.back for line in drawing.lines)
    for x, y in drawing.places.values():
        assert 0 <= x <= drawing.width - WIDE
        assert 0 <= y <= drawing.height - HIGH
