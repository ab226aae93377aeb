"""Renders the templates; escapes every value, and shows characters that change the direction of a text as codes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from lockwork import words
from lockwork.dashboard import assets, charts, formats, json_tree
from lockwork.dashboard.page import quoted


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lockwork.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(asset=assets.asset, bar_parts=charts.bar_parts, spark_points=charts.spark_points)
    environment.filters.update(
        duration=formats.duration,
        size=formats.size,
        number=formats.number,
        percent=formats.percent,
        several=words.several,
        short_id=words.short_id,
        cut=formats.cut,
        middle=formats.middle,
        exact=_exact,
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
    return environment


def _finalized(thing: Any) -> Any:
    return formats.visible(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing


def _exact(thing: object) -> Markup:
    """Escape a value that a form sends back or a button copies, without replacing characters."""
    return escape(thing)


def render(template: str, **found: Any) -> str:
    """Render a template with the data of a page."""
    return _environment().get_template(template).render(**found)
