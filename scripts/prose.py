"""Counts phrases that a reader must read twice, per 1,000 sentences of each part of the project."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATTERNS = {
    "what is …, what they … as a noun": r"\bwhat (?:is|are|was|were|it|they|he|she|the|an?|this|that|has|have|had|may"
    r"|must|can|could|would|will|does|did|came|comes|runs?|only|else|its?|each|other|another)\b",
    "one that, ones that": r"\bones? (?:that|which|who|whose|with|for|from)\b",
    "those of, those that": r"\bthose (?:of|that|who|whose|which|before|behind|in|with|for|from|by|he|it|they)\b",
    "each of them, all of them": r"\b(?:each|all|none|both|any|some|many|most) of (?:them|it|these|those)\b",
    "of which, for which": r"\b(?:of|for|in|by|with|from|to|on|at|after|behind) (?:which|whom|whose)\b",
    "nobody, somebody": r"\b(?:no|some|any|every)body\b",
    "whoever, whatever": r"\b(?:who|what|which|when|where|how)ever\b(?!,)",
    "told, heard, said": r"\b(?:told|heard|hears?|said)\b",
    "is asked, is given": r"\b(?:is|are|was|were|be|been|being) (?:asked|given|handed|meant|let|made|taken|due to)\b",
    "goes on": r"\b(?:go|goes|going|went|gone) on\b",
    "looks again": r"\blook(?:s|ed|ing)? (?:again|up(?:on)?|whether|when|what)\b",
    "passed over, stands in": r"\b(?:pass(?:es|ed)? over|st(?:and|ands|anding|ood)|in turn|takes? the place)\b",
    "but for, save for": r"\b(?:but|save) for\b",
    "as it is, as they are": r"\bas (?:it|they) (?:is|are|was|were)\b",
    "the same of": r"\b(?:do|does|did) (?:the same|so)\b|\bthe same (?:of|for)\b",
    "all the same, by itself": r"\b(?:all the same|by itself|on its own|of its own|at all)\b",
    "so many, so long": r"\b(?:so|as) (?:many|much|long|often|far|few)\b(?! as)",
    "no such, such a one": r"\b(?:no such|such an? one|such ones?)\b",
    "that it has, which it": r"\b(?:that|which) (?:it|they|he|she) (?:is|are|was|were|has|have|had|does|do|did)\b",
    "is to be": r"\b(?:is|are|was|were) to (?:be|have|know|do|go|\w+)\b",
    "has to know, knows": r"\b(?:knows?|known|knew) (?:of|by|what|how|whether|when)\b",
    "how many, how long": r"\b(?:by|of|on|from|in) (?:how|when|where|whether)\b",
}
OPENING = re.compile(r"(?:What|How|Whether|When|Of|It|That|Who|Which|Where|As|So|If|Those|This|These|Its?)\b")
"""How a docstring should not begin."""
_COMPILED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PATTERNS.items()}
_SENTENCE = re.compile(r"[.!?:;](?=\s|$)")
_TEST = re.compile(
    r"def test_(?:an?|the|it|its|they|those|what|who|whoever|one|each|all|no|nobody|that|this|some|how|when|where|which"
    r"|whether|of|so|such|many|another|every|any|only|both|none|most|two|more)_"
)


@dataclass
class Count:
    """What was read of one part of the project."""

    sentences: int = 0
    hits: int = 0

    @property
    def rate(self) -> float:
        """Hits per 1,000 sentences."""
        return 1000 * self.hits / max(1, self.sentences)


def hits(text: str, *, docstring: bool = False) -> Iterator[tuple[str, str]]:
    """Name each pattern that matches in a text, and the words."""
    if docstring and (opening := OPENING.match(text)):
        yield "a docstring's first word", opening[0]
    for name, pattern in _COMPILED.items():
        for match in pattern.finditer(text):
            yield name, match[0]


def sentences(text: str) -> int:
    """Count the sentences of a text; one without an end counts."""
    return max(1, len(_SENTENCE.findall(text)))


def texts(path: Path, *, code: bool = False) -> Iterator[tuple[int, str, bool]]:
    """Return each comment, docstring or paragraph: its line, its text, and whether it is a docstring.

    code: keep the code of a page.
    """
    if path.suffix == ".md" and code:
        return ((number, line, False) for number, line in enumerate(path.read_text().splitlines(), 1))
    readers = {".py": _python, ".lua": _lua, ".md": _markdown, ".js": _javascript, ".html": _html}
    return readers[path.suffix](path.read_text())


def _python(source: str) -> Iterator[tuple[int, str, bool]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split()), True
    comments = [
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
        and not re.match(r"#\s*(?:noqa|type:|fmt:|pyright:|pragma|ruff:|!)", token.string)
    ]
    yield from _joined(comments)


def _lua(source: str) -> Iterator[tuple[int, str, bool]]:
    lines = [(number, line.partition("--")) for number, line in enumerate(source.splitlines(), 1)]
    skipped = ("KEYS:", "ARGV:", "include:", "needs:")
    yield from _joined([
        (number, comment.strip())
        for number, (_, dashes, comment) in lines
        if dashes and not comment.strip().startswith(skipped)
    ])  # fmt: skip


def _javascript(source: str) -> Iterator[tuple[int, str, bool]]:
    lines = enumerate(source.splitlines(), 1)
    yield from _joined([(number, line.partition("// ")[2]) for number, line in lines if "// " in line])
    for match in re.finditer(r"/\*(.*?)\*/", source, re.DOTALL):
        yield source.count("\n", 0, match.start()) + 1, " ".join(match[1].replace("*", " ").split()), False


def _html(source: str) -> Iterator[tuple[int, str, bool]]:
    plain = re.sub(r"{[%#{].*?[%#}]}|<script.*?</script>|<[^>]*>", " ", source, flags=re.DOTALL)
    yield from (
        (number, line.strip(), False) for number, line in enumerate(plain.splitlines(), 1) if len(line.split()) > 3
    )


def _markdown(source: str) -> Iterator[tuple[int, str, bool]]:
    code, begin, paragraph = False, 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        code ^= line.startswith("```")
        ends = code or line.startswith(("```", "#", "|", "- ", "* ")) or not line.strip()
        if ends and paragraph:
            yield begin, re.sub(r"`[^`]*`", "CODE", " ".join(paragraph)), False
            paragraph = []
        if not code and not line.startswith(("```", "#")) and line.strip():
            begin = begin if paragraph else number
            paragraph.append(line.strip())


def _joined(comments: list[tuple[int, str]]) -> Iterator[tuple[int, str, bool]]:
    """Join the comments of adjacent lines."""
    at, begin, words = -1, 0, list[str]()
    for number, comment in [*comments, (-1, "")]:
        if number != at + 1 and words:
            yield begin, " ".join(words), False
            words = []
        if not words:
            begin = number
        words.append(comment)
        at = number


def count(paths: list[Path]) -> tuple[Count, list[str]]:
    """Count the hits of some files, and list them."""
    found, lines = Count(), []
    for path in paths:
        for number, text, docstring in texts(path):
            found.sentences += sentences(text)
            for pattern, words in hits(text, docstring=docstring):
                found.hits += 1
                lines.append(f"{path}:{number}: {words!r} ({pattern})")
    return found, lines


def test_names(paths: list[Path]) -> tuple[Count, list[str]]:
    """Count the tests whose names begin with an article or a pronoun, as if a name were a sentence."""
    found, lines = Count(), []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r"\s*(?:async )?def test_", line):
                found.sentences += 1
                if match := _TEST.search(line):
                    found.hits += 1
                    lines.append(f"{path}:{number}: {match[0]}…")
    return found, lines
