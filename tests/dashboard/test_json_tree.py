"""Values as JSON that can be folded: short ones are one line, and large ones are cut with their size."""

from __future__ import annotations

from lockwork.dashboard.json_tree import Json, json_tree
from lockwork.dashboard.redaction import Hidden


def many(tree: Json) -> int:
    return 1 + sum(many(part) for part in tree.parts)


def test_short_value_is_one_line() -> None:
    assert json_tree({"a": [1, None]}) == Json('{"a": [1, null]}')


def test_long_object_has_its_keys_as_parts() -> None:
    tree = json_tree({"name": "x" * 40, "items": [{"sku": "A" * 60, "qty": 1}, {"sku": "B" * 60, "qty": 2}]})
    assert (tree.ends, tree.size, [part.name for part in tree.parts]) == ("{}", "2 keys", ['"name"', '"items"'])
    items = tree.parts[1]
    assert (items.ends, items.size, items.parts[0].line) == ("[]", "2 items", '{"sku": "' + "A" * 60 + '", "qty": 1}')
    assert len(tree.line) == 100


def test_long_text_is_cut_with_its_size() -> None:
    tree = json_tree("é" * 30_000)
    assert (tree.size, len(tree.text), tree.left_out) == ("30,000 characters", 20_000, "The first 20,000 characters.")


def test_large_and_deep_values_are_bounded() -> None:
    wide = json_tree([["x" * 99] * 120] * 5000)
    assert (wide.left_out, many(wide) <= 1001) == ("4,990 more", True)
    deep: object = "x" * 200
    for _ in range(100):
        deep = [deep]
    assert many(json_tree(deep)) == 13


def test_hidden_part_is_hidden() -> None:
    assert "•••" in json_tree({"card": Hidden("cards"), "more": "x" * 200}).parts[0].line
