#!/bin/sh
# All checks except the tests, side by side.
set -eu

BIN=$(cd "$VENV/bin" && pwd)
export BIN
exec sh scripts/parallel.sh \
    ruff '"$BIN/ruff" format --check; "$BIN/ruff" check' \
    language '"$BIN/python" scripts/language.py' \
    codespell '"$BIN/codespell"' \
    import-linter '"$BIN/lint-imports"' \
    pyright '"$BIN/pyright" --pythonpath "$BIN/python"' \
    mypy '"$BIN/mypy"' \
    wheel 'sh scripts/wheel.sh'
