"""Commands as bytes."""

from __future__ import annotations

from lockwork.runtime.resp import pack
from processes import script

INTERRUPTED = """
import signal
from lockwork.runtime.resp import pack

class Interrupted(Exception):
    pass

def strike(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, strike)
for _ in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while True:
            pack("EVALSHA", *range(400))
    except Interrupted:
        pass
print("alive")
"""


def test_command_is_packed_as_resp() -> None:
    assert pack("SET", "ä", b"\x00", 12) == b"*4\r\n$3\r\nSET\r\n$2\r\n\xc3\xa4\r\n$1\r\n\x00\r\n$2\r\n12\r\n"


def test_signal_handler_that_raises_during_packing_does_no_harm() -> None:
    """hiredis 3.5 alone ends the process with a segmentation fault."""
    with script(INTERRUPTED, url=None) as process:
        assert process.wait() == 0
        assert process.line() == "alive"
