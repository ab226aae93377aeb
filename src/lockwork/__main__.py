"""`python -m lockwork` is the `lockwork` command."""

from __future__ import annotations

from lockwork.cli import main

main()
