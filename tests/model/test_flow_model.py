"""Flows against their model, and broken flows that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.flow_machine import FlowMachine, StepwiseFlowMachine
from simulation.server import Build, Server

_FLOWS = "parts/flows"
_SMALL_STEPS = (_FLOWS, "local STEPS = 1000", "local STEPS = 2")
_ONCE = "if redis.call('HSETNX', flows, flow .. ' r' .. number, letter .. value) == 0 then return end"
_PASSES = "local passes = letter == 's' or flow_get(flow, 'p', number) == 'i'"
_LAST = "redis.call('HINCRBY', flows, field, -1) > 0"
_NEXT = "redis.call('HDEL', flows, flow .. ' y' .. book[TOP])\n    book[TOP] = book[TOP] - 1"
_BLOCKED = "if blocked(id, record) then return {'blocked'} end"
TWINS = (
    Build("the first parent is enough", ((_FLOWS, _LAST, "redis.call('HINCRBY', flows, field, -1) > 99"),)),
    Build("an end counts twice", ((_FLOWS, _ONCE, _ONCE.replace("then return end", "then end")),)),
    Build("a failure passes", ((_FLOWS, _PASSES, "local passes = true"),)),
    Build("nothing is ignored", ((_FLOWS, _PASSES, "local passes = letter == 's'"),)),
    Build("a dead worker's jobs are forgotten", (("jobs_recover", "flow_ended(id, record, 'f', problem)", ""),)),
    Build("a cancelled job is forgotten", (("jobs_cancel", "flow_ended(id, record, 'c', '')", ""),)),
    Build("who is cleared away is forgotten", (("jobs_clear", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cancelled flow goes on", (("flow_cancel", "if book[STOP] == 0 then", "if false then"),)),
