"""The header of a server script: its keys and arguments, their Lua locals, and the Python call that fits them.

    -- KEYS: <queue/push>, tries: hash, dead: zset; run
    -- ARGV: again: flag, want: number, request, seal?, (id, record, delay)
    -- Out of memory: goes on
    -- Flags: no-writes
    -- Indexed: stats
    -- Codes: <stock/earlier>, granted=1, refused=0

`<queue/push>` includes the KEYS of queue/parts/push.lua. `ready*3` is three keys in one table, `runs*` all remaining
keys. A key with a type is read before the script writes, so a key that has another data type stops the script before it
changes anything. The caller names the keys after the semicolon; the others are attributes of its keys object. `flag` is
true for "1", a `number` is converted, `seal?` is optional. `(id, record, delay)` repeats to the end: its first argument
is number `FIRST`, and each repetition is `STRIDE` arguments further. A script that "goes on" begins with a deletion, so
it runs when the server is out of memory; one that "goes on, after its own deletions" needs no such command. A script
with the flag `no-writes` is also a read-only function (functions.py). The names of the indexed keys are added to their
index after a call (index/index.py). Codes are numbers in the script's reply: the Lua locals GRANTED and REFUSED, and in
Python `scripts.codes(name).granted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from msgspec import Struct

Names = str | Sequence[str]

_DECLARATION = re.compile(r"^-- (KEYS|ARGV): ((?:.*,\n--)*.*)\n", re.MULTILINE)
_GOES_ON = re.compile(r"^-- Out of memory: goes on\n", re.MULTILINE)
_NO_WRITES = re.compile(r"^-- Flags: no-writes\n", re.MULTILINE)
_INDEXED = re.compile(r"^-- Indexed: (.*)\n", re.MULTILINE)
_CODES = re.compile(r"^-- Codes: (.*)\n", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: (.*)\n", re.MULTILINE)
_GROUP = re.compile(r"<([\w/]+)>")
_KEY = re.compile(r"(\w+)(\*(\d*))?(\?)?(?:: (hash|list|set|zset))?")
_CODE = re.compile(r"(\w+)=(-?\d+)")
_ARGUMENT = re.compile(r"(\w+)(\?)?(?:: (flag|number))?")
_LOCAL = re.compile(r"^local (?:function (\w+)|([\w, ]+))", re.MULTILINE)
_READS = {"hash": "HLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD"}
_RARE = frozenset(
    ("flows", "group_queue", "groups", "long_results", "parked", "parked_since", "rounds", "suspects", "throttled",
     "unreported", "void")
)  # fmt: skip
"""Keys that do not exist in most queues: one command finds that none of them has another data type."""


class DeclarationError(Exception):
    """A script, a part and a call do not fit together."""


class Key(Struct, frozen=True):
    """One name of a script's keys: `count` keys in a table, 0 for any number, or one key alone."""

    name: str
    count: int | None = None
    kind: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared keys and arguments of a script: `own` keys are in the caller's keys object, `given` keys have names."""

    script: str = ""
    own: tuple[Key, ...] = ()
    given: tuple[Key, ...] = ()
    args: tuple[tuple[str, str, bool], ...] = ()
    """Name, type, and True if it is optional."""
    group: tuple[str, ...] = ()
    """The names of the arguments that repeat."""
    rest: bool = False
    """Any arguments may follow."""
    goes_on: bool = False
    """The script also runs when the server is out of memory."""
    no_writes: bool = False
    """The script can be called as a read-only function."""
    indexed: tuple[int, ...] = ()
    """Positions of the keys whose names belong into an index."""
    codes: tuple[tuple[str, int], ...] = ()
    """Names of the numbers in the reply."""

    marked: bool = field(init=False)
    """The first argument is true if an earlier try may have been applied."""
    fixed: int = field(init=False)
    """Number of arguments before the repeated group."""
    _single: bool = field(init=False)
    _named: tuple[str, ...] = field(init=False)
    """The names of `given` if every given key is a single key."""
    _required: int = field(init=False)

    def __post_init__(self) -> None:
        one_each = all(key.count is None for key in self.given)
        for name, value in (
            ("marked", bool(self.args) and self.args[0][0] == "again"),
            ("fixed", len(self.args)),
            ("_single", len(self.own) == 1 and self.own[0].count is None),
            ("_named", tuple(key.name for key in self.given) if one_each else ()),
            ("_required", sum(not key.optional for key in self.given)),
        ):
            object.__setattr__(self, name, value)

    def keys(self, source: Any, given: Mapping[str, Names]) -> tuple[str, ...]:
        """Return the keys of a call, in order; raises DeclarationError for names that are missing or unknown."""
        if self._single and type(source) is str:
            own: tuple[str, ...] = (source,)
        else:
            cache: dict[str, tuple[str, ...]] = getattr(source, "tuples", {})
            own = cache.get(self.script) or cache.setdefault(self.script, self._own(source))
        if not given and not self._required:
            return own
        named = [given[name] for name in self._named if name in given]
        if len(named) == len(given) >= self._required:
            return (*own, *named)  # type: ignore[arg-type]  # each is one key
        return (*own, *self._given(given))

    def _given(self, given: Mapping[str, Names]) -> Iterator[str]:
        if unknown := given.keys() - {key.name for key in self.given}:
            raise DeclarationError(f"{self.script}: no keys {', '.join(sorted(unknown))}")
        for key in self.given:
            if key.name in given:
                yield from self._many(key, given[key.name])
            elif not key.optional:
                raise DeclarationError(f"{self.script}: the key {key.name!r} is missing")

    def _own(self, source: Any) -> tuple[str, ...]:
        # a string is the only key; a sequence has the keys of many locks
        if isinstance(source, str) or (isinstance(source, Sequence) and not hasattr(source, "_fields")):
            if not self.own and not source:
                return ()
            if len(self.own) != 1:
                raise DeclarationError(f"{self.script}: one key was given for {[key.name for key in self.own]}")
            return tuple(self._many(self.own[0], source))
        keys: list[str] = []
        for key in self.own:
            value = getattr(source, key.name, None)
            if value is None:
                raise DeclarationError(f"{self.script}: {type(source).__name__} has no key {key.name!r}")
            keys += self._many(key, value)
        return tuple(keys)

    def _many(self, key: Key, value: Names) -> Sequence[str]:
        many = not isinstance(value, str)
        if many != (key.count is not None) or (key.count and len(value) != key.count):
            raise DeclarationError(f"{self.script}: {value!r} does not fit the key {key.name!r}")
        return value if many else [value]  # type: ignore[list-item]

    def check(self, args: Sequence[object]) -> None:
        """Raise DeclarationError for arguments that are missing or too many."""
        more = len(args) - self.fixed
        if more == 0 or (more > 0 and (self.rest or (self.group and more % len(self.group) == 0))):
            return
        if more < 0 and all(optional for _, _, optional in self.args[more:]):
            return
        names = [name + "?" * optional for name, _, optional in self.args]
        names += [f"({', '.join(self.group)})"] * bool(self.group) + ["..."] * self.rest
        raise DeclarationError(f"{self.script}: {len(args)} arguments for {', '.join(names) or 'none'}")

    def position(self, name: str) -> int:
        """Return the position of a key among all keys; raises DeclarationError."""
        at = 0
        for key in (*self.own, *self.given):
            if key.name == name:
                return at
            at += 1 if key.count is None else key.count
        raise DeclarationError(f"{self.script}: no key {name!r}")

    @property
    def names(self) -> dict[str, Key | None]:
        """The names of the script's locals; the value is the key, or None."""
        names: dict[str, Key | None] = {key.name: key for key in (*self.own, *self.given)}
        names |= {name: None for name, _, _ in self.args}
        if self.group or self.rest:
            names |= {"FIRST": None}
        if len(self.group) > 1:
            names |= {"STRIDE": None}
        return names | {name.upper(): None for name, _ in self.codes}

    def lua(self) -> str:
        """Return the Lua text that reads the keys and arguments; it reads from typed keys before the script writes."""
        lines = [*self._take_keys(), *self._take_arguments()]
        if self.codes:
            names = ", ".join(name.upper() for name, _ in self.codes)
            lines.append(f"local {names} = {', '.join(str(value) for _, value in self.codes)}")
        lines += self._check_types()
        if self.goes_on:
            # after a deletion, a script may continue to write when the server is out of memory
            first = self.own[0]
            delete = "ZREM" if first.kind == "zset" else "HDEL"
            # with many keys, a key of another data type must fail alone
            lines.append(f"redis.{'call' if first.count is None else 'pcall'}('{delete}', KEYS[1], '')")
        return "".join(f"{line}\n" for line in lines)

    def _check_types(self) -> Iterator[str]:
        """Yield commands that fail for a key of another data type."""
        rare: dict[str, str] = {}
        for key in (*self.own, *self.given):
            if key.kind and key.count == 0:
                yield f"for _, key in ipairs({key.name}) do redis.call('{_READS[key.kind]}', key) end"
            elif key.kind:
                names = [key.name] if key.count is None else [f"{key.name}[{at}]" for at in range(1, key.count + 1)]
                reads = {name: f"redis.call('{_READS[key.kind]}', {name})" for name in names}
                if key.name in _RARE:
                    rare |= reads
                else:
                    yield from reads.values()
        if len(rare) > 2:  # fewer reads cost no more than the command
            yield f"if redis.call('EXISTS', {', '.join(rare)}) > 0 then"
        yield from rare.values()
        if len(rare) > 2:
            yield "end"

    def _take_keys(self) -> Iterator[str]:
        at = 1
        names, values = [], []
        for key in (*self.own, *self.given):
            names.append(key.name)
            if key.count is None:
                values.append(f"KEYS[{at}]")
            elif key.count:
                values.append("{" + ", ".join(f"KEYS[{number}]" for number in range(at, at + key.count)) + "}")
            else:
                values.append("KEYS" if at == 1 else f"{{unpack(KEYS, {at})}}")
            at += 1 if key.count is None else key.count
        if names:
            yield f"local {', '.join(names)} = {', '.join(values)}"

    def _take_arguments(self) -> Iterator[str]:
        convert = {"": "ARGV[{}]", "flag": "ARGV[{}] == '1'", "number": "tonumber(ARGV[{}])"}
        if self.args:
            values = [convert[kind].format(at) for at, (_, kind, _) in enumerate(self.args, 1)]
            yield f"local {', '.join(name for name, _, _ in self.args)} = {', '.join(values)}"
        first = len(self.args) + 1
        if len(self.group) > 1:
            yield f"local FIRST, STRIDE = {first}, {len(self.group)}"
        elif self.group or self.rest:
            yield f"local FIRST = {first}"


def read(script: str, text: str, part: Callable[[str], str]) -> Declaration:
    """Read the header of a script; `part` returns the text of a part by its name."""
    lines = _lines(text)
    own, _, given = lines.get("KEYS", "none").partition(";")
    args, group, rest = _arguments(script, lines.get("ARGV", ""))
    declared = Declaration(
        script,
        tuple(_keys(script, own, part)),
        tuple(_keys(script, given, part)),
        tuple(args),
        group,
        rest,
        _GOES_ON.search(text) is not None,
        _NO_WRITES.search(text) is not None,
        codes=_codes(script, text, part),
    )
    if match := _INDEXED.search(text):
        declared = replace(declared, indexed=tuple(map(declared.position, match[1].split(", "))))
    names = [key.name for key in (*declared.own, *declared.given)] + [name for name, _, _ in args]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DeclarationError(f"{script}: declared twice: {', '.join(sorted(twice))}")
    if any(key.count == 0 for key in (*declared.own, *declared.given)[:-1]):
        raise DeclarationError(f"{script}: only the last key can be any number")
    return declared


def _keys(script: str, text: str, part: Callable[[str], str]) -> list[Key]:
    by_name: dict[str, Key] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        if group := _GROUP.fullmatch(word):
            keys = part_keys(group[1], part)
        elif match := _KEY.fullmatch(word):
            count = None if not match[2] else int(match[3] or 0)
            keys = [] if word == "none" else [Key(match[1], count, match[5] or "", bool(match[4]))]
        else:
            raise DeclarationError(f"{script}: no key {word!r}")
        for key in keys:
            declared_key = by_name.setdefault(key.name, key)
            if declared_key.count != key.count:
                raise DeclarationError(f"{script}: the key {key.name!r} is declared twice, in two ways")
            if key.kind and not declared_key.kind:
                by_name[key.name] = key
    return list(by_name.values())


def part_keys(name: str, part: Callable[[str], str]) -> list[Key]:
    """Return the keys that a part uses, by its header."""
    return _keys(f"part {name}", _lines(part(name)).get("KEYS", ""), part)


@cache
def _lines(text: str) -> dict[str, str]:
    return {match[1]: match[2].replace("\n--", " ") for match in _DECLARATION.finditer(text)}


def _codes(script: str, text: str, part: Callable[[str], str]) -> tuple[tuple[str, int], ...]:
    match = _CODES.search(text)
    codes: list[tuple[str, int]] = []
    for word in match[1].split(", ") if match else ():
        if group := _GROUP.fullmatch(word):
            codes += _codes(f"part {group[1]}", part(group[1]), part)
        elif code := _CODE.fullmatch(word):
            codes.append((code[1], int(code[2])))
        else:
            raise DeclarationError(f"{script}: no code {word!r}")
    return tuple(codes)


def _arguments(script: str, text: str) -> tuple[list[tuple[str, str, bool]], tuple[str, ...], bool]:
    words, _, last = text.partition("(")
    group = tuple(word.strip() for word in last.rstrip(")").split(",")) if last else ()
    args, rest = [], False
    for word in filter(None, (word.strip() for word in words.split(","))):
        if word.endswith("..."):
            rest = True
        elif match := _ARGUMENT.fullmatch(word):
            args.append((match[1], match[3] or "", bool(match[2])))
        else:
            raise DeclarationError(f"{script}: no argument {word!r}")
    return args, group, rest


def check_part(declared: Declaration, name: str, text: str, before: str, part: Callable[[str], str]) -> None:
    """Raise DeclarationError if a name that the part needs is missing, or if the part hides a name of the script."""
    names = declared.names
    for key in part_keys(name, part):
        script_key = names.get(key.name)
        if script_key is None or script_key.count != key.count:
            raise DeclarationError(f"{declared.script}: part {name} needs the key {key.name!r}")
    if needs := _NEEDS.search(text):
        missing = set(needs[1].split(", ")) - names.keys() - locals_of(before)
        if missing:
            raise DeclarationError(f"{declared.script}: part {name} needs {', '.join(sorted(missing))}")
    if hidden := locals_of(text) & names.keys():
        raise DeclarationError(f"{declared.script}: part {name} hides {', '.join(sorted(hidden))}")


@cache
def locals_of(text: str) -> set[str]:
    """Return the names of a text's outermost locals."""
    names: set[str] = set()
    for match in _LOCAL.finditer(text):
        names |= {name.strip() for name in (match[1] or match[2]).split(",")}
    return names


def expand(declared: Declaration, text: str) -> str:
    """Return the script's text with its declarations as Lua."""
    lua, text = declared.lua(), _INDEXED.sub("", _NO_WRITES.sub("", _GOES_ON.sub("", text)))
    if not _DECLARATION.search(text):
        return text
    body = _DECLARATION.sub("", text)
    # after the header
    at = re.match(r"(?:-- (?!include: ).*\n)*", body)
    end = at.end() if at else 0
    return body[:end] + lua + body[end:]
