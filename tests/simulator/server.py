"""A real server that runs Lockwork's scripts for the simulator, with the time as an argument.

Scripts read the clock in one included part. Here that part is empty, and each script takes the time from the end of
ARGV, so the simulation sets the clock. A single connection does everything, so a run depends only on its seed: wake-ups
arrive on it as RESP3 pushes, and the reply to a PING after every script shows that all wake-ups have arrived.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import hiredis

from lockwork.protocol.effects import Argument
from lockwork.protocol.scripts import Script, assemble, read

NOW = "local now = tonumber(table.remove(ARGV))\n"
_CLOCK = "parts/now"
_DATABASE = 9
Command = tuple[Argument, ...]


@dataclass(frozen=True)
class Build:
    """The scripts of a simulation. A mutant edits their text: (script or part, text, replacement)."""

    name: str = "as released"
    edits: tuple[tuple[str, str, str], ...] = ()
    ends: Literal["always", "when it sends again", "never"] = "always"
    """The cases where the driver ends a broken connection, which may still deliver a call, before its next call."""
    careful: bool = True
    """True: without the right to CLIENT KILL, each call checks for jobs that have ended, as a repeated call does."""
    checks_owners: bool = True
    """True: a lease is renewed only while its owner lives."""
    scripts: dict[str, Script] = field(default_factory=dict, compare=False)

    @property
    def label(self) -> str:
        """The name of this build among all mutants of a run."""
        return self.name

    def script(self, name: str) -> Script:
        """Return script `name` of this build."""
        if name not in self.scripts:
            self.scripts[name] = self._assembled(name)
        return self.scripts[name]

    def edited(self) -> dict[str, str]:
        """Return the scripts and parts that this build edits; raises LookupError if an edit does not fit."""
        sources: dict[str, str] = {}
        for place, text, other in self.edits:
            source = sources.get(place) or read(f"{place}.lua")
            sources[place] = _edited(place, source, text, other)
        return sources

    def _assembled(self, name: str) -> Script:
        released, files = _released(name)
        if files.isdisjoint(place for place, _, _ in self.edits):
            return released
        return _with_time(assemble(name, {_CLOCK: ""} | self.edited()))


class _Texts(dict[str, str]):
    """Replaced files, which also notes the names of all files of a script."""

    def __init__(self, replaced: Mapping[str, str]) -> None:
        super().__init__(replaced)
        self.files: set[str] = set()

    def __contains__(self, file: object) -> bool:
        self.files.add(str(file))
        return super().__contains__(file)


@cache
def _released(name: str) -> tuple[Script, frozenset[str]]:
    """Return a script without edits, and the names of its files."""
    texts = _Texts({_CLOCK: ""})
    script = _with_time(assemble(name, texts))
    return script, frozenset(texts.files)


def _with_time(script: Script) -> Script:
    return Script(script.name, NOW + script.source, script.declared)


def _edited(place: str, source: str, text: str, other: str) -> str:
    if text not in source:  # no AssertionError, which would look as if the mutant had been caught
        raise LookupError(f"a mutant edits {text!r}, which {place} no longer contains")
    return source.replace(text, other)


@dataclass(frozen=True)
class Applied:
    """The result of a script: its reply, its messages as (channel, text), and the replies to the reads after it."""

    reply: Any
    messages: list[tuple[str, str]]
    seen: list[Any]


class Server:
    """One connection to the real server."""

    def __init__(self, url: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(unquote(urlsplit(url).path))
        self._reader = hiredis.Reader()
        self.command("HELLO", 3)
        self.command("SELECT", _DATABASE)

    def close(self) -> None:
        """Empty the database and close the connection."""
        self.command("FLUSHDB")
        self._socket.close()

    def command(self, *command: Argument) -> Any:
        """Run one command."""
        return self.commands([command])[0]

    def commands(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in one round trip."""
        replies, _ = self._exchange(commands)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return replies

    def reset(self) -> None:
        """Empty the database and end all subscriptions."""
        self._exchange([("FLUSHDB",), ("UNSUBSCRIBE",), ("PUNSUBSCRIBE",)])

    def hear(self, channel: str) -> None:
        """Subscribe to the channel of a process."""
        self._exchange([("SUBSCRIBE", channel)])

    def monitor(self) -> None:
        """Subscribe to every channel, as a monitoring tool does."""
        self._exchange([("PSUBSCRIBE", "*")])

    def deafen(self, channel: str) -> None:
        """End the subscription to the channel of a process."""
        self._exchange([("UNSUBSCRIBE", channel)])

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[Argument], now: int, looks: Sequence[Command] = ()
    ) -> Applied:
        """Run a script at server time `now` (us), and the reads in `looks` right after it."""
        rest = (len(keys), *keys, *args, now)
        replies, messages = self._exchange([("EVALSHA", script.sha, *rest), *looks])
        if isinstance(replies[0], hiredis.ReplyError) and str(replies[0]).startswith("NOSCRIPT"):
            replies, messages = self._exchange([("EVAL", script.source, *rest), *looks])
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return Applied(replies[0], messages, replies[1:])

    def _exchange(self, commands: Sequence[Command]) -> tuple[list[Any], list[tuple[str, str]]]:
        whole: list[Any] = [*commands, ("PING", "end")]
        self._socket.sendall(b"".join(map(hiredis.pack_command, whole)))
        replies: list[Any] = []
        messages = []
        while True:
            reply = self._reader.gets()
            if reply is False:
                data = self._socket.recv(1 << 16)
                assert data, "the server closed the connection"
                self._reader.feed(data)
            elif isinstance(reply, hiredis.PushNotification):
                if reply[0] == b"message":
                    messages.append((reply[1].decode(), reply[2].decode()))
            elif reply == b"end":
                return replies, messages
            else:
                replies.append(reply)
