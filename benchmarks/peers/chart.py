"""An SVG chart of figures: one horizontal bar for each queue."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

_WIDTH, _NAMES, _FIGURES = 720, 190, 90
_LINE, _BAR, _TOP = 30, 18, 44
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.theirs { fill: #8c959f }
.ours { fill: #0969da }
"""


def bars(title: str, figures: Mapping[str, float], ours: str) -> str:
    """Draw the figures, the largest first; the bars of `ours` are colored."""
    ordered = sorted(figures.items(), key=lambda item: -item[1])
    most = max(figures.values())
    height = _TOP + _LINE * len(ordered)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text class="title" x="10" y="22">{escape(title)}</text>',
    ]
    for number, (name, figure) in enumerate(ordered):
        top = _TOP + number * _LINE
        width = max(1.0, figure / most * (_WIDTH - _NAMES - _FIGURES))
        kind = "ours" if name.partition(",")[0] == ours else "theirs"
        parts += [
            f'<text x="{_NAMES - 10}" y="{top + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{_NAMES}" y="{top}" width="{width:.1f}" height="{_BAR}"/>',
            f'<text x="{_NAMES + width + 8:.1f}" y="{top + 14}">{figure:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
