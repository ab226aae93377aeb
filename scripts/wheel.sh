#!/bin/sh
# Builds the wheel, installs and uses it, and checks that all its public types are known. BIN: the environment's programs.
set -eu

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$BIN/python" -m build --outdir "$out" --quiet
"$BIN/python" -m venv "$out/venv"
"$out/venv/bin/python" -m pip install --quiet "$out"/lockwork-*.whl
# from another folder, so that the wheel is used and not the tree
cd "$out"
venv/bin/lockwork --version
# it finds the flash sale in the wheel, and says which packages it needs to play it
venv/bin/lockwork demo 2>&1 | grep -q 'pip install ".*\[demo\]"'
venv/bin/python -c '
import lockwork

with lockwork.Lockwork() as lw, lw.lock("wheel", wait=5) as grant:
    print("the wheel locks:", grant)
'
# classes of the extras have base classes of these packages; it looks for them where the first python of the path does
"$out/venv/bin/python" -m pip install --quiet "$(echo "$out"/lockwork-*.whl)[django,flask,metrics,starlette,top]" django-stubs
PATH="$out/venv/bin:$PATH" "$BIN/pyright" --verifytypes lockwork --ignoreexternal
