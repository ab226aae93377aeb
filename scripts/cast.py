"""Record a command in a terminal as an animated SVG: `python scripts/cast.py docs/drawings/demo.svg lockwork demo`.

Needs pyte (`pip install pyte`), a terminal without a window. The SVG has no script: its frames are shown one after the
other by CSS. Where animations are switched off, it shows the last frame.
"""

from __future__ import annotations

import os
import pty
import select
import struct
import sys
import termios
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pyte  # no dependency of the project: only whoever records needs it

COLUMNS, LINES = 88, 30
WIDTH, HEIGHT, MARGIN = 8.4, 19, 16
"""Size of a cell, and the space around all cells, in pixels."""
BETWEEN, LAST = 0.6, 6.0
"""Minimum seconds between two frames, and how long the last one stays."""
COLORS = {"default": "#d6dbe5", "green": "#7fd88f", "red": "#ff8f8f", "brown": "#e8c07a", "blue": "#8ab4ff",
          "cyan": "#7fd6d6", "magenta": "#d7a3f5", "black": "#8b94a5", "white": "#ffffff"}  # fmt: skip


class Frame(NamedTuple):
    """The screen from a time on, in seconds."""

    at: float
    lines: tuple[str, ...]
    """SVG of each line."""


def record(command: list[str]) -> list[Frame]:
    """Run the command in a terminal, and return what its screen showed."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        os.execvp(command[0], command)  # noqa: S606 - the command that the user wants to record
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    began, frames, shown = monotonic(), list[Frame](), -BETWEEN
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.05)
        try:
            if ready:
                stream.feed(os.read(terminal, 65536))
        except OSError:  # the command has ended
            break
        if monotonic() - began - shown >= BETWEEN:
            shown = monotonic() - began
            add(frames, shown, screen)
    add(frames, monotonic() - began, screen)
    os.waitpid(child, 0)
    return frames


def add(frames: list[Frame], at: float, screen: Any) -> None:
    """Add the screen, if it has changed."""
    lines = tuple(drawn(number, screen.buffer[number]) for number in range(LINES))
    if any(lines) and (not frames or frames[-1].lines != lines):
        frames.append(Frame(at, lines))


def drawn(number: int, cells: Any) -> str:
    """Return the SVG of a line: a text for each run of cells that look alike."""
    row = [cells[column] for column in range(COLUMNS)]
    parts, column = list[str](), 0
    for (color, bold), run in groupby(row, lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in run)
        if text.strip():
            weight = ' font-weight="bold"' if bold else ""
            fill = COLORS.get(color, f"#{color}" if len(color) == 6 else COLORS["default"])
            x, y = MARGIN + column * WIDTH, MARGIN + (number + 0.75) * HEIGHT
            parts.append(f'<text x="{x:g}" y="{y:g}" fill="{fill}"{weight}>{escape(text.rstrip())}</text>')
        column += len(text)
    return "".join(parts)


def picture(frames: list[Frame], command: str) -> str:
    """Return the animated SVG."""
    frames = [frame._replace(at=frame.at - frames[0].at) for frame in frames]
    whole = frames[-1].at + LAST
    used = 1 + max(number for frame in frames for number, line in enumerate(frame.lines) if line)
    width, height = 2 * MARGIN + COLUMNS * WIDTH, 2 * MARGIN + used * HEIGHT
    ends = [frame.at for frame in frames[1:]] + [whole]
    rules, groups = list[str](), list[str]()
    for number, (frame, end) in enumerate(zip(frames, ends, strict=True)):
        last = number == len(frames) - 1
        begin, over = 100 * frame.at / whole, 100 * end / whole
        hidden = "" if last else f"{over:.2f}%,100%{{visibility:hidden}}"
        rules.append(
            f"@keyframes f{number}{{0%{{visibility:hidden}}{begin:.2f}%{{visibility:visible}}{hidden}}}"
            f"#f{number}{{animation:f{number} {whole:.1f}s step-end infinite}}"
        )
        visible = "" if last else ' visibility="hidden"'
        groups.append(f'<g id="f{number}"{visible}>{"".join(frame.lines)}</g>')
    style = "".join(rules) + "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" xml:space="preserve">'
        f"<title>{escape(command)}</title><style>text{{white-space:pre}}{style}</style>"
        f'<rect width="100%" height="100%" rx="10" fill="#161b22"/>{"".join(groups)}</svg>\n'
    )


def main() -> None:
    out, *command = sys.argv[1:]
    Path(out).write_text(picture(record(command), " ".join(command)))


if __name__ == "__main__":
    main()
