"""Mutants of the fenced register."""

from __future__ import annotations

from simulator.server import Build

MUTANTS = (
    Build("no fence", (("locks/register_set", "if fence < last_fence then", "if false then"),)),
    Build("the holder writes once only", (("locks/register_set", "if strict then", "if true then"),)),
    Build("strict is not", (("locks/register_set", "if strict then", "if false then"),)),
    Build("forgets the last writers", (("locks/register_set", "string.find(requests, request, 1, true)", "false"),)),
    Build("remembers only the last", (("locks/register_set", "string.sub(requests, -15 * #request)", "''"),)),
)
