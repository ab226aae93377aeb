#!/bin/sh
# Makes the virtual environment $VENV with the first Python that is new enough.
set -eu

for python in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
    if command -v "$python" >/dev/null && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "Making a virtual environment in $VENV with $("$python" --version) ..."
        "$python" -m venv --clear "$VENV"
        # older versions of pip know no dependency groups
        "$VENV/bin/python" -m pip install --quiet --upgrade pip
        exit
    fi
done
echo "Lockwork needs Python 3.11 or later: install it, or name it, as in: make test PYTHON=/path/to/python" >&2
exit 1
