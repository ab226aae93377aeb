"""Settings: checked once, unknown ones answered with a suggestion."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.config import Config


def test_defaults_without_configuration() -> None:
    config = Config.read({})
    assert (config.prefix, config.lock_lease, config.patience) == ("lw", 15.0, 10.0)
    assert config == Config()


def test_durations_in_every_form() -> None:
    config = Config.read({"lock_lease": "30s", "patience": 0, "result_ttl": "1h"})
    assert (config.lock_lease, config.patience, config.result_ttl) == (30.0, 0.0, 3600.0)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("prefx", "did you mean 'prefix'?"),
        ("lock_leese", "did you mean 'lock_lease'?"),
        ("max_paylod", "did you mean 'max_payload'?"),
        ("colour", "known are prefix, lock_lease"),
    ],
)
def test_unknown_setting_gets_a_suggestion(wrong: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.read({wrong: 1})
    assert f"no setting '{wrong}'" in str(caught.value)
    assert hint in str(caught.value)
    with pytest.raises(ConfigError, match=f"no setting '{wrong}'"):
        Lockwork("redis://localhost", **{wrong: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("lock_lease", 0, "lock_lease must be more than 0"),
        ("lock_lease", -1, "lock_lease must be between 0"),
        ("patience", -1, "patience must be between 0"),
        ("result_ttl", "30s", "result_ttl must be at least 60 s"),
        ("max_payload", 0, "max_payload, in bytes, must be a whole number from 1"),
        ("max_payload", "1MB", "max_payload, in bytes, must be a whole number from 1"),
        ("max_result", 1.5, "max_result, in bytes, must be a whole number from 1"),
        ("max_payload", True, "max_payload, in bytes, must be a whole number from 1"),
        ("allow_eviction", "no", "allow_eviction must be True or False, not 'no'"),
        ("prefix", "a b", "the prefix must be 1 to 200 characters"),
        ("prefix", "{x}", "the prefix must be 1 to 200 characters"),
        ("prefix", "", "the prefix must be 1 to 200 characters"),
        ("prefix", 5, "the prefix must be text, not 5"),
    ],
)
def test_wrong_value_of_a_setting_is_refused(setting: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Config.read({setting: value})


def test_config_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(AttributeError, match="immutable"):
        config.prefix = "other"  # type: ignore[misc]
