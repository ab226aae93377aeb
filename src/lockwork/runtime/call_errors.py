"""The exceptions for error replies, and the read path of users without permission to run scripts.

Such a user (the role `viewer`) has no EVALSHA. The first refusal is remembered per server; from then on, read-only
calls are sent as FCALL_RO. Calls of all other users are unaffected.
"""

from __future__ import annotations

import re
from typing import NoReturn

from lockwork.errors import FunctionsMissing, ServerRefused
from lockwork.protocol import functions
from lockwork.protocol.effects import Call
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.replies import NoScript, raise_error

_NO_EVALSHA = re.compile("^NOPERM .*'evalsha'", re.IGNORECASE)
_NO_FCALL = re.compile("^NOPERM .*'fcall_ro'", re.IGNORECASE)
_UNKNOWN = re.compile("^ERR unknown command .?FCALL_RO", re.IGNORECASE)
_MISSING = "Function not found"


def raise_call_error(endpoint: Endpoint, call: Call, message: str) -> NoReturn:
    """Raise the exception for this server's error reply to a call; NoScript: send the call again, in another form."""
    where, reads = endpoint.shown, call.script.declared.no_writes
    if reads and _NO_EVALSHA.search(message):
        endpoint.by_function = True
        raise NoScript
    if reads and (refused := _of_functions(message, where)) is not None:
        # the next call uses a script again: permissions may change while this process runs
        endpoint.by_function = False
        raise refused
    raise_error(message, where, call.script.name)


def _of_functions(message: str, where: str) -> FunctionsMissing | ServerRefused | None:
    if _MISSING in message:
        return FunctionsMissing(
            f"the server at {where} lacks the functions {functions.library().name}, by which this user reads: run "
            "`lockwork functions load` as an administrator of the server"
        )
    if _UNKNOWN.search(message):
        return ServerRefused(
            f"the server at {where} has no functions (FCALL_RO), and does not let this user run scripts: set the rules "
            "that `lockwork acl viewer --eval` prints"
        )
    if _NO_FCALL.search(message):
        return ServerRefused(
            f"the server at {where} does not let this user do that: it may run neither scripts (EVALSHA) nor functions "
            "(FCALL_RO), so set the rules that `lockwork acl ROLE` prints"
        )
    return None
