"""Renders the templates; every value is escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from lockwork.dashboard import assets, charts, formats, json_tree
from lockwork.dashboard.page import quoted


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("lockwork.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(asset=assets.asset, bar_parts=charts.bar_parts, spark_points=charts.spark_points)
    made.filters.update(
        duration=formats.duration,
        size=formats.size,
        number=formats.number,
        percent=formats.percent,
        several=formats.several,
        short_id=formats.short_id,
        cut=formats.cut,
        commands=formats.commands,
        iso=formats.iso,
        clock=formats.clock,
        ago=formats.ago,
        relative=formats.relative,
        elapsed=formats.elapsed,
        value=formats.value,
        tree=json_tree.json_tree,
        quoted=quoted,
    )
    return made


def render(template: str, **found: Any) -> str:
    """Render a template with what a page has read."""
    return _environment().get_template(template).render(**found)
