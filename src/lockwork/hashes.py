"""Hash functions and random bytes without OpenSSL: `hashlib` and `secrets` load it, which takes 4 MB.

Python has the same functions in modules that its own `random` and `hashlib` use; a build may omit them.
"""

from __future__ import annotations

import sys
from os import urandom as random_bytes
from typing import TYPE_CHECKING

__all__ = ["blake2b", "compare_digest", "random_bytes", "sha1", "sha256"]

if TYPE_CHECKING:
    from hashlib import blake2b, sha1, sha256
    from hmac import compare_digest
else:
    try:
        from _blake2 import blake2b
        from _operator import _compare_digest as compare_digest
        from _sha1 import sha1

        if sys.version_info < (3, 12):
            from _sha256 import sha256
        else:
            from _sha2 import sha256
    except ImportError:
        from hashlib import blake2b, sha1, sha256
        from hmac import compare_digest
