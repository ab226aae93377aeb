"""The picture of a flow: folded, marked and omitted nodes."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.flow_picture import fold, picture
from lockwork.protocol.flows.flow_graph import FlowNode


def node(number: int, task: str | None, children: tuple[int, ...] = (), state: Any = "succeeded") -> FlowNode:
    return FlowNode(number, f"flow.{number:05}", state, task, children)


def mapped(many: int, task: str | None = "resize") -> list[FlowNode]:
    """Return a job, `many` equal jobs that wait for it, and a job that waits for them all."""
    middle = tuple(range(2, many + 2))
    return [node(1, "list", middle), *(node(at, task, (many + 2,)) for at in middle), node(many + 2, "publish")]


def folded(nodes: list[FlowNode], marked: str = "") -> list[list[int]]:
    return [[each.number for each in group] for group in fold(nodes, marked)]


def test_map_of_equal_jobs_is_one_box_with_counts() -> None:
    nodes = mapped(500)
    for at, state in ((5, "failed"), (6, "running"), (7, "running")):
        nodes[at] = node(at + 1, "resize", (502,), state)
    drawn = picture(nodes)
    assert drawn is not None
    assert [len(box.nodes) for box in drawn.boxes] == [1, 500, 1]
    assert drawn.boxes[1].counts == [("failed", 1), ("running", 2), ("succeeded", 497)]
    assert drawn.boxes[1].state == "failed"
    assert drawn.boxes[1].words == "resize: 1 failed, 2 running, 497 succeeded"
    assert drawn.boxes[0].words == "list: succeeded"
    assert [(line.start, line.end) for line in drawn.lines] == [("1", "2"), ("2", "502")]
    assert drawn.left_out == 0


def test_marked_job_is_alone() -> None:
    assert folded(mapped(4), "flow.00003") == [[1], [2, 4, 5], [3], [6]]


def test_other_tasks_and_other_neighbors_are_other_boxes() -> None:
    both = [
        node(1, "list", (2, 3, 4)),
        node(2, "resize", (5,)),
        node(3, "crop", (5,)),
        node(4, "resize"),
        node(5, "end"),
    ]
    assert folded(both) == [[1], [2], [3], [4], [5]]


def test_jobs_after_a_failure_are_another_box() -> None:
    handled = [node(1, "list", (2, 3)), node(2, "resize"), node(3, "resize")]
    assert folded(handled) == [[1], [2, 3]]
    handled[0] = FlowNode(1, "flow.00001", "succeeded", "list", (2, 3), after_failure=(3,))
    assert folded(handled) == [[1], [2], [3]]
    drawn = picture(handled)
    assert drawn is not None
    assert drawn.after_failure == {("1", "3")}


def test_parallel_chains_fold_step_by_step() -> None:
    chains = [node(at, "load", (at + 1,)) if at % 2 else node(at, "save", (9,)) for at in range(1, 9)]
    assert folded([*chains, node(9, "report")]) == [[1, 3, 5, 7], [2, 4, 6, 8], [9]]


def test_chain_of_one_task_is_not_folded() -> None:
    assert folded([node(1, "step", (2,)), node(2, "step", (3,)), node(3, "step")]) == [[1], [2], [3]]


def test_job_of_a_forgotten_task_goes_with_its_kind() -> None:
    nodes = mapped(3)
    nodes[2] = node(3, None, (5,))
    assert folded(nodes) == [[1], [2, 3, 4], [5]]
    drawn = picture(mapped(3, None))
    assert drawn is not None
    assert drawn.boxes[1].words == "unknown task: 3 succeeded"


def test_children_that_were_not_read_are_left_out() -> None:
    drawn = picture(mapped(10)[:6])
    assert drawn is not None
    assert [len(box.nodes) for box in drawn.boxes] == [1, 5]


def test_flow_with_many_boxes_is_drawn_around_the_marked_job() -> None:
    chain = [node(number, f"step{number}", (number + 1,)) for number in range(1, 1000)]
    begin, middle = picture(chain), picture(chain, "flow.00500")
    assert begin is not None
    assert middle is not None
    assert begin.boxes[0].nodes[0].number == 1
    assert begin.left_out == 999 - len(begin.boxes)
    assert any(box.marked and box.nodes[0].number == 500 for box in middle.boxes)
    assert len(middle.boxes) == len(begin.boxes)


def test_dense_flow_shows_only_the_lines_from_which_the_others_follow() -> None:
    dense = [node(number, f"step{number}", tuple(range(number + 1, 41))) for number in range(1, 41)]
    drawn = picture(dense)
    assert drawn is not None
    assert [(line.start, line.end) for line in drawn.lines] == [(str(at), str(at + 1)) for at in range(1, 40)]


def test_picture_without_jobs_is_none() -> None:
    assert picture([]) is None
