"""A payload is bound to its job, task, queue and kind, and cannot be read anywhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encryption.codecs_of_tests import aes, hmac
from lockwork.errors import ConfigError, PayloadKeyUnknown, PayloadRejected
from lockwork.payloads.payloads import Payloads, Rollout
from lockwork.protocol.queue import envelope, records

RECORD = b'1,4,,;["pay",["4111"],{"to":"x"},{"tags":["vip"],"timeout":5}]'
CODECS = [aes(), hmac()]


def payloads(codec: Any, prefix: str = "lw") -> Payloads:
    return Payloads(codec, prefix, None)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "plain",
    [
        RECORD,
        b'1,4,,;["pay",[]]',
        b'1,4,,;["pay",["x"],{"y":[1,null,"\\"~"]}]',
        b'0,4/7/,key,group,1/0/0,dpay/name;["pay",["x"]]',
        b'1,4,,,,>;["pay",[null],{},{},[[[0],1]],[]]',
    ],
)
def test_record_is_restored(codec: Any, plain: bytes) -> None:
    of_app = payloads(codec)
    sealed = of_app.seal_call("mail", "id", plain)
    call = records.read(of_app.open_call("mail/3", "id", sealed), 0, "flow.00002")
    assert call == records.read(plain, 0, "flow.00002")
    assert sealed.partition(b";")[0] == plain.partition(b";")[0]
    assert records.is_encrypted(sealed) is (codec is CODECS[0])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("queue", "id", "change"),
    [
        ("other", "id", lambda record: record),
        ("mail", "another", lambda record: record),
        ("mail", "id", lambda record: record.replace(b'"pay"', b'"refund"')),
        ("mail", "id", lambda record: record.replace(b'"vip"', b'"all"')),
        ("mail", "id", lambda record: record.replace(b'"timeout":5', b'"timeout":9')),
        ("mail", "id", lambda record: record.replace(b"1,4,,", b"1,9,,")),
        ("mail", "id", lambda record: record.replace(b"1,4,,", b"1,4,key,")),
        ("mail", "id", lambda record: record[:-1] + b",[[[0],1]],[]]"),
        ("mail", "id", lambda record: record.replace(b"~old.", b"~old/unique.")),
        ("mail", "id", lambda record: record.replace(b"~old.", b"~old/schedule.")),
        ("mail", "id", lambda record: record.replace(b"~old.", b"~old.A")),
    ],
)
def test_moved_or_changed_call_is_rejected(codec: Any, queue: str, id: str, change: Any) -> None:
    of_app = payloads(codec)
    sealed = of_app.seal_call("mail", "id", RECORD)
    assert records.read(of_app.open_call("mail", "id", sealed), 0, "id").args == ["4111"]
    with pytest.raises(PayloadRejected) as caught:
        of_app.open_call(queue, id, change(sealed))
    assert not isinstance(caught.value, PayloadKeyUnknown)
    assert "changed, or moved from another job, task or queue" in str(caught.value)


@pytest.mark.parametrize("change", [b'["4112"]', b'["4111","x"]', b"[4111]"])
def test_changed_signed_arguments_are_rejected(change: bytes) -> None:
    of_app = payloads(hmac())
    sealed = of_app.seal_call("mail", "id", RECORD).replace(b'["4111"]', change)
    with pytest.raises(PayloadRejected, match="wrong signature by key 'old'"):
        of_app.open_call("mail", "id", sealed)


def test_arguments_cannot_contain_a_signature() -> None:
    of_app = payloads(hmac())
    stolen = of_app.seal_call("mail", "id", RECORD)
    mark = stolen.partition(b'"sig":')[2][:-2]
    forged = b'1,4,,;["pay",["4111"],{"sig":%b},{"tags":["vip"],"timeout":5}]' % mark
    with pytest.raises(PayloadRejected, match="is not signed, and this app requires that"):
        of_app.open_call("mail", "id", forged)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("kind", "queue", "id", "name"),
    [
        ("progress", "mail", "id", "step"),
        ("checkpoint", "other", "id", "step"),
        ("checkpoint", "mail", "another", "step"),
        ("checkpoint", "mail", "id", "next"),
    ],
)
def test_moved_value_is_rejected(codec: Any, kind: Any, queue: str, id: str, name: str) -> None:
    of_app = payloads(codec)
    sealed = of_app.seal_value("checkpoint", "mail", "id", b"[1]", "step")
    assert of_app.open_value("checkpoint", "mail", "id", sealed, "step") == b"[1]"
    with pytest.raises(PayloadRejected):
        of_app.open_value(kind, queue, id, sealed, name)


@pytest.mark.parametrize("codec", CODECS)
def test_value_of_another_prefix_is_rejected(codec: Any) -> None:
    sealed = payloads(codec, "staging").seal_value("result", "mail", "id", b"1")
    with pytest.raises(PayloadRejected):
        payloads(codec).open_value("result", "mail", "id", sealed)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stored", [b"1", b"null", b"", b'{"a":1}'])
def test_plain_value_is_rejected(codec: Any, stored: bytes) -> None:
    with pytest.raises(PayloadRejected, match="this app requires that"):
        payloads(codec).open_value("result", "mail", "id", stored)
    rollouts: list[Rollout] = ["read", "write"]
    for rollout in rollouts:
        assert Payloads(codec, "lw", rollout).open_value("result", "mail", "id", stored) == stored


@pytest.mark.parametrize("codec", CODECS)
@given(stored=st.binary(max_size=60) | st.binary(max_size=40).map(lambda data: b"~old." + data))
def test_foreign_bytes_are_rejected(codec: Any, stored: bytes) -> None:
    of_app = payloads(codec)
    with pytest.raises(PayloadRejected):
        of_app.open_value("result", "mail", "id", stored)
    with pytest.raises((PayloadRejected, ValueError)):
        of_app.open_call("mail", "id", b"1,4,,;" + stored)
    assert records.read(b"1,4,,;" + stored, 100, "id") is not None
    records.value(stored)


@pytest.mark.parametrize("codec", CODECS)
def test_unknown_key_is_told_from_a_forgery(codec: Any) -> None:
    sealed = payloads(codec).seal_call("mail", "id", RECORD)
    other = payloads(type(codec)({"new": b"n" * 32}))
    with pytest.raises(PayloadKeyUnknown, match="with key 'old'"):
        other.open_call("mail", "id", sealed)
    same_id = payloads(type(codec)({"old": b"n" * 32}))
    with pytest.raises(PayloadRejected) as caught:
        same_id.open_call("mail", "id", sealed)
    assert not isinstance(caught.value, PayloadKeyUnknown)


def test_payload_of_the_other_kind_waits_for_its_codec() -> None:
    with pytest.raises(PayloadKeyUnknown):
        payloads(hmac()).open_call("mail", "id", payloads(aes()).seal_call("mail", "id", RECORD))
    with pytest.raises(PayloadRejected, match="is not encrypted"):
        payloads(aes()).open_call("mail", "id", payloads(hmac()).seal_call("mail", "id", RECORD))


def test_payloads_have_nonces_of_their_own() -> None:
    codec = aes()
    sealed = {codec.encode(b"x", b"") for _ in range(1000)}
    assert len({data[:12] for data in sealed}) == 1000


@pytest.mark.parametrize("codec", CODECS)
def test_error_keeps_its_type_and_fits_in_history(codec: Any) -> None:
    of_app = payloads(codec)
    stored = b'{"type":"ValueError","message":"%b","traceback":"Traceback 4111","known":{"name":"E"}}' % (
        b"4111 " * 199
    )
    sealed = of_app.seal_error("mail", "id", stored)
    assert of_app.open_error("mail", "id", sealed) == stored
    assert records.fault(sealed).type == "ValueError"
    if codec is CODECS[0]:
        assert b"4111" not in sealed
        message = records.decoded(sealed)["message"]
        assert len(message) <= 300
        assert of_app.open_text("mail", "id", message) == ("4111 " * 30)[:150]
        assert records.fault(sealed).text == envelope.ENCRYPTED
        assert of_app.open_text("mail", "id", message[:200]) == envelope.ENCRYPTED
    moved = records.decoded(of_app.open_error("mail", "another", sealed))
    assert (moved["type"], "known" in moved) == ("ValueError", False)


def test_text_of_an_error_may_look_encrypted() -> None:
    fault = records.fault(b'{"type":"ValueError","message":"~old.AAAA","traceback":"x"}')
    assert (fault.text, fault.traceback) == ("~old.AAAA", "x")


class Failing:
    key_ids = ("a",)

    def encode(self, payload: bytes, context: bytes) -> bytes:
        raise OSError("the key server is away")

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        raise OSError("the key server is away")


def test_failing_codec_stores_nothing_plain() -> None:
    of_app = payloads(Failing())
    with pytest.raises(ConfigError, match="cannot be encrypted: the codec failed: OSError"):
        of_app.seal_call("mail", "id", RECORD)
    with pytest.raises(ConfigError, match="cannot be encrypted"):
        of_app.seal_value("result", "mail", "id", b"1")
    stored = of_app.seal_error("mail", "id", b'{"type":"ValueError","message":"4111","traceback":"4111"}')
    assert b"4111" not in stored
    with pytest.raises(PayloadKeyUnknown, match="the codec failed: OSError"):
        of_app.open_value("result", "mail", "id", b"~a.AAAA")


def test_queues_without_a_codec_stay_plain() -> None:
    of_app = payloads({"mail": aes()})
    assert of_app.seal_call("mail/2", "id", RECORD) != RECORD
    assert of_app.seal_call("other", "id", RECORD) == of_app.open_call("other", "id", RECORD) == RECORD
    assert of_app.seal_value("once", "", "key", b"1") == b"1"
    with pytest.raises(PayloadKeyUnknown, match="has no codec"):
        of_app.open_value("result", "other", "id", b"~old.AAAA")
