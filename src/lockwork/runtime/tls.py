"""Explanations of failed TLS handshakes, with remedies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_HOST, _ADDRESS, _EXPIRED, _NOT_YET = 62, 64, 10, 9
"""OpenSSL's numbers of certificate errors: X509_V_ERR_HOSTNAME_MISMATCH and others."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_OURS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")


def trouble(error: BaseException, where: str) -> str | None:
    """Describe the problem with certificates or TLS settings, and the remedy; None for another error."""
    if "ssl" not in sys.modules:  # see lazy.py
        return None
    import ssl  # noqa: PLC0415 - loaded already

    for cause in _chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of the server at {where} {_refused(cause)}"
        if isinstance(cause, ssl.SSLError):
            reason = cause.reason or ""
            if reason in _NO_TLS:
                return f"the server at {where} does not speak TLS: use redis://, or its port for TLS"
            if "ALERT" in reason and any(word in reason for word in _OURS):
                return (
                    f"the server at {where} does not accept our certificate ({reason}): give one that it trusts "
                    "(ssl_certfile= and ssl_keyfile= in the URL)"
                )
        if where.startswith("rediss://") and isinstance(cause, FileNotFoundError | PermissionError):
            return (
                f"a file for TLS to {where} cannot be read ({cause.strerror}): check ssl_ca_certs=, ssl_certfile= and "
                "ssl_keyfile= in the URL"
            )
    return None


def _refused(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_HOST, _ADDRESS):
        return f"is for another host ({error.verify_message.rstrip('.')}): use the certificate's host name in the URL"
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return f"is not valid now ({error.verify_message}): renew it, and check the clocks of both machines"
    return (
        f"is not signed by an authority that we trust ({error.verify_message}): give the authority's certificate "
        "(ssl_ca_certs= in the URL)"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    # redis-py wraps these errors in its own
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
