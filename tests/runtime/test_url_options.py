"""Options and schemes of a server's URL: each error is a LockworkError that names the change to make."""

from __future__ import annotations

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.runtime import connect
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.sentinel import SentinelEndpoint

BAD = [
    ("rediss://h/?ssl_cert_reqs=CERT_NONE", "CERT_NONE"),
    ("rediss://h/?ssl_ciphers=abc", "cipher"),
    ("rediss://h/?ssl_min_version=5", "5"),
    ("rediss://h/?ssl_ca_data=abc", "options in the server's URL"),
    ("rediss://h/?ssl_include_verify_flags=abc", "URL"),
    ("redis://h/?socket_read_size=-5", "socket_read_size must be a positive number, not -5"),
    ("redis://h/?socket_read_size=0", "socket_read_size"),
    ("redis://h/?encoding=abc", "abc"),
    ("redis://h/?port=abc", "abc"),
    ("redis://h/?credential_provider=abc", "credential_provider= is an object"),
    ("redis://h/?parser_class=abc", "parser_class= is an object"),
    ("redis://h/?nonsense=1", "an option that connections do not know: 'nonsense'"),
]


@pytest.mark.parametrize("scheme", ["", "+cluster", "+sentinel"])
@pytest.mark.parametrize(("url", "text"), BAD)
def test_bad_option_is_a_config_error(url: str, text: str, scheme: str) -> None:
    place = "h/main" if scheme == "+sentinel" else "h"
    given = url.replace("://h", f"{scheme}://{place}")
    with pytest.raises(ConfigError, match=text):
        connect.opener(given, None)


def test_error_of_an_option_does_not_show_the_password() -> None:
    with pytest.raises(ConfigError) as caught:
        Lockwork("redis://:CERT_5ecret@h/?port=CERT_5ecret")
    assert "5ecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("valkey://h:1/2", "redis://h:1/2"),
        ("valkeys://h:1", "rediss://h:1/0"),
        ("VALKEY://h", "redis://h:6379/0"),
    ],
)
def test_scheme_of_valkey_is_accepted(url: str, shown: str) -> None:
    endpoint, _ = connect.opener(url, None)()
    assert endpoint.shown == shown


def test_schemes_of_valkey_are_accepted_for_clusters_and_sentinels() -> None:
    endpoint, _ = connect.opener("valkeys+cluster://h:1,h:2", None)()
    assert isinstance(endpoint, ClusterEndpoint)
    endpoint, close = connect.opener("valkey+sentinel://h:1/main", None)()
    assert isinstance(endpoint, SentinelEndpoint)
    close()


@pytest.mark.parametrize("password", ["50%off", "100%", "a%zz", "%"])
def test_percent_sign_that_begins_no_escape_is_named(password: str) -> None:
    for scheme in ("redis", "valkey", "redis+cluster"):
        with pytest.raises(ConfigError, match="write %25 for a %") as caught:
            connect.opener(f"{scheme}://user:{password}@h:1", None)
        assert password not in str(caught.value).replace("%25", "").replace("a %", "") or password == "%"


def test_escaped_password_is_accepted() -> None:
    endpoint, _ = connect.opener("redis://:50%25off%2F@h", None)()
    assert endpoint.options["password"] == "50%off/"
