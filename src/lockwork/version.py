"""The version of Lockwork: here, because `importlib.metadata` takes long to import."""

VERSION = "0.1.0"

RELEASED = False
"""True once a package index has this project; until then, extras are installed from a checkout."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra of Lockwork."""
    return f'pip install "{"lockwork" if RELEASED else "."}[{extra}]"'
