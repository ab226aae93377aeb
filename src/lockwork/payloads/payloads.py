"""Encrypts or signs everything that the jobs of an app store, and reads it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn, get_args

import msgspec

from lockwork.errors import ConfigError, PayloadKeyUnknown, PayloadRejected
from lockwork.payloads.codec import PayloadCodec
from lockwork.payloads.record_parts import RecordParts, split_signature
from lockwork.payloads.signing import HmacCodec
from lockwork.protocol.keys import base_queue, whole_queue
from lockwork.protocol.queue import envelope, records
from lockwork.protocol.queue.envelope import ENCRYPTED, KEY_ID, SEALED_TEXT, Bound, Envelope
from lockwork.validation import one_of

Codec = PayloadCodec | HmacCodec
Rollout = Literal["read", "write"]
Kind = Literal["result", "progress", "checkpoint", "error", "text", "once", "attempts"]
_SHORT = 150
"""Bytes of an error's text that its timeline keeps: encrypted, they are shorter than history's limit of 300."""


class Payloads:
    """The codecs of an app, by queue.

    Each payload is bound to a context: the app's prefix, the kind of the payload, its queue (without the partition),
    its job, and the task of a call or the name of a checkpoint. So it cannot be read in another place.
    """

    def __init__(self, codecs: Codec | Mapping[str, Codec], prefix: str, rollout: Rollout | None) -> None:
        self._all: Codec | None = None if isinstance(codecs, Mapping) else codecs
        self._by_queue: Mapping[str, Codec] = codecs if isinstance(codecs, Mapping) else {}
        self._prefix = prefix
        self._writes = rollout != "read"
        self._accepts_plain = rollout is not None
        self._begins: dict[tuple[str, str], bytes] = {}
        """The encoded beginnings of contexts, by kind and queue."""

    def hides(self, queue: str) -> bool:
        """Return True if payloads of the queue are encrypted, so that the log must not contain their values."""
        codec = self._of(queue)
        return codec is not None and not isinstance(codec, HmacCodec)

    @property
    def kinds(self) -> dict[str, Literal["encrypted", "signed"]]:
        """How payloads are protected, by queue; the key "" is for all queues. Empty while they are written plain."""
        codecs = self._by_queue if self._all is None else {"": self._all}
        if not self._writes:
            return {}
        return {queue: "signed" if isinstance(each, HmacCodec) else "encrypted" for queue, each in codecs.items()}

    def keys_of(self, queue: str) -> str:
        """Return the ids of the queue's keys, as a text; empty without a codec."""
        codec = self._of(queue)
        return "" if codec is None else " ".join(codec.key_ids)

    def newest_key(self, queue: str) -> str:
        """Return the id of the key that encrypts or signs now; empty if none does."""
        codec = self._of(queue)
        return "" if codec is None or not self._writes else codec.key_ids[0]

    def seal_call(self, queue: str, id: str, record: bytes, bound: Bound = "") -> bytes:
        """Return the record of a job with encrypted arguments, or with a signature.

        id: of the job, or, if it is bound to its schedule, the name of the schedule.
        """
        codec = self._of(queue)
        if codec is None or not self._writes:
            return record
        parts = RecordParts.read(record)
        context = self._of_call(queue, bound, id if bound != "unique" else parts.unique, parts)
        if isinstance(codec, HmacCodec):
            mark = envelope.pack(codec.key_ids[0], codec.sign(parts.arguments, context), bound)
            return parts.with_signature(mark)
        return parts.with_arguments(self._encrypted(codec, parts.arguments, context, f"job {id}", bound))

    def open_call(self, queue: str, id: str, record: bytes) -> bytes:
        """Return the plain record of a job; raises PayloadRejected, PayloadKeyUnknown, or ValueError."""
        parts, codec = RecordParts.read(record), self._of(queue)
        what = f"job {id} in queue {base_queue(queue)!r}"
        sealed, options = parts.sealed, parts.options
        if sealed is None and not isinstance(codec, HmacCodec):
            if codec is not None and not self._accepts_plain:
                self._refuse_plain(codec, what)
            return record
        if sealed is None:
            sealed, options = split_signature(options)
            parts = parts._replace(options=options)
        if sealed is None:
            if not self._accepts_plain:
                self._refuse_plain(codec, what)
            return record
        context = self._of_call(queue, sealed.bound, parts.identity(sealed.bound, id), parts)
        if sealed.payload is not None:
            sealed = sealed._replace(payload=parts.arguments)
        return parts.plain(self._opened(codec, sealed, context, what))

    def seal_value(self, kind: Kind, queue: str, id: str, encoded: bytes, name: str = "") -> bytes:
        """Return the stored form of a value of a job, which is JSON; name: of a checkpoint."""
        codec = self._of(queue)
        if codec is None or not self._writes:
            return encoded
        context = self._context(kind, queue, id, name)
        if isinstance(codec, HmacCodec):
            return envelope.pack(codec.key_ids[0], codec.sign(encoded, context), payload=encoded)
        return self._encrypted(codec, encoded, context, _described(kind, queue, id))

    def open_value(self, kind: Kind, queue: str, id: str, stored: bytes, name: str = "") -> bytes:
        """Return a value as JSON; raises PayloadRejected or PayloadKeyUnknown."""
        codec, what = self._of(queue), _described(kind, queue, id)
        if not envelope.is_packed(stored):
            if codec is not None and not self._accepts_plain:
                self._refuse_plain(codec, what)
            return stored
        sealed = envelope.unpack(stored)
        if sealed is None:
            raise PayloadRejected(f"{what} is damaged")
        return self._opened(codec, sealed, self._context(kind, queue, id, name), what)

    def seal_error(self, queue: str, id: str, stored: bytes) -> bytes:
        """Return the stored form of an error: its type stays readable, and its text and traceback do not."""
        codec = self._of(queue)
        if codec is None or not self._writes:
            return stored
        if isinstance(codec, HmacCodec):
            mark = envelope.pack(codec.key_ids[0], codec.sign(stored, self._context("error", queue, id)))
            return stored[:-1] + b',"sig":"' + mark + b'"}'
        fields = msgspec.json.decode(stored)
        short = fields["message"].encode()[:_SHORT].decode(errors="ignore").encode()
        try:
            message = "\0" + self.seal_value("text", queue, id, short).decode()
            # its place and its name are those that scripts cut off
            trace = self.seal_value("error", queue, id, stored).decode()
        except ConfigError as error:
            message, trace = f"(the text of the error is not stored: {error})", ""
        return msgspec.json.encode({"type": fields["type"], "message": message, "traceback": trace})

    def open_error(self, queue: str, id: str, stored: bytes) -> bytes:
        """Return a stored error as plain JSON.

        An error that cannot be decrypted keeps its type. An unsigned error is not rebuilt as an exception.
        """
        codec = self._of(queue)
        try:
            fields = msgspec.json.decode(stored, type=dict[str, msgspec.Raw])
            message, trace = _text(fields.get("message")), _text(fields.get("traceback"))
        except (ValueError, RecursionError):
            return stored
        if message.startswith(SEALED_TEXT):
            try:
                if envelope.is_packed(trace.encode()):
                    return self.open_value("error", queue, id, trace.encode())
                text = self.open_text(queue, id, message)
            except Exception:  # noqa: BLE001 - a codec of the app may raise anything, and the failure must be known
                text = ENCRYPTED
            return msgspec.json.encode({"type": fields.get("type", ""), "message": str.__str__(text)})
        if codec is None or self._accepts_plain:
            return stored
        sealed, remaining = split_signature(stored)
        if (
            isinstance(codec, HmacCodec)
            and sealed is not None
            and sealed.key_id in codec.key_ids
            and codec.verify(sealed.data, remaining, self._context("error", queue, id), sealed.key_id)
        ):
            return remaining
        fields.pop("known", None)  # an exception is not rebuilt from data that others may have written
        return msgspec.json.encode(fields)

    def open_text(self, queue: str, id: str, text: str) -> str:
        """Return the text of an error in a timeline; `ENCRYPTED` if it cannot be read."""
        if not text.startswith(SEALED_TEXT):
            return text
        try:
            return self.open_value("text", queue, id, text[1:].encode()).decode()
        except Exception:  # noqa: BLE001 - as in `open_error`
            return ENCRYPTED

    def _of(self, queue: str) -> Codec | None:
        return self._all or self._by_queue.get(base_queue(queue))

    def _of_call(self, queue: str, bound: str, identity: str, parts: RecordParts) -> bytes:
        covered = (parts.covered_header, parts.options, *parts.rest)
        task = parts.task.decode(errors="surrogateescape")
        return self._context("call", queue, identity, task, bound) + b"".join(map(_netstring, covered))

    def _context(self, kind: str, queue: str, id: str, name: str = "", bound: str = "") -> bytes:
        begin = self._begins.get((kind, queue))
        if begin is None:
            place = ("lockwork 1", self._prefix, kind, base_queue(queue))
            begin = self._begins[kind, queue] = b"".join(_netstring(text.encode()) for text in place)
        names = (bound, id, name)
        return begin + b"".join([_netstring(text.encode(errors="surrogatepass")) for text in names])

    def _opened(self, codec: Codec | None, sealed: Envelope, context: bytes, what: str) -> bytes:
        """Return the payload of an envelope; raises PayloadRejected or PayloadKeyUnknown."""
        signs = isinstance(codec, HmacCodec)
        if codec is None and sealed.payload is not None:
            return sealed.payload  # a signed value is readable
        if codec is None:
            raise no_codec(what)
        if sealed.key_id not in codec.key_ids or signs != (sealed.payload is not None):
            done = "encrypted" if sealed.payload is None else "signed"
            raise PayloadKeyUnknown(
                f"{what} is {done} with key {sealed.key_id!r}, and the codec of this app ({codec!r}) does not have it"
            )
        if isinstance(codec, HmacCodec):
            assert sealed.payload is not None
            if not codec.verify(sealed.data, sealed.payload, context, sealed.key_id):
                raise PayloadRejected(
                    f"{what} has a wrong signature by key {sealed.key_id!r}: it was changed, or moved from another "
                    "job, task or queue"
                )
            return sealed.payload
        try:
            return codec.decode(sealed.data, context, sealed.key_id)
        except PayloadRejected as error:
            raise PayloadRejected(
                f"{what} {error}: it was changed, or moved from another job, task or queue, or another key has this id"
            ) from None
        except Exception as error:
            raise PayloadKeyUnknown(f"{what} cannot be decrypted: the codec failed: {type(error).__name__}") from error

    @staticmethod
    def _encrypted(codec: PayloadCodec, payload: bytes, context: bytes, what: str, bound: Bound = "") -> bytes:
        """Encrypt a payload; raises ConfigError if the codec fails, so that nothing is stored unencrypted."""
        try:
            return envelope.pack(codec.key_ids[0], codec.encode(payload, context), bound)
        except Exception as error:
            raise ConfigError(f"{what} cannot be encrypted: the codec failed: {type(error).__name__}") from error

    @staticmethod
    def _refuse_plain(codec: Codec | None, what: str) -> NoReturn:
        done = "signed" if isinstance(codec, HmacCodec) else "encrypted"
        raise PayloadRejected(
            f'{what} is not {done}, and this app requires that; codec_rollout="write" accepts plain payloads, too'
        )


def read_codec_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings `codec` and `codec_rollout`; raises ConfigError."""
    codec, rollout = settings.get("codec"), settings.get("codec_rollout")
    if rollout is not None and codec is None:
        raise ConfigError("codec_rollout is for an app with a codec: pass codec=..., too")
    return {
        "codec": None if codec is None else _read_codecs(codec),
        "codec_rollout": None if rollout is None else one_of(rollout, "codec_rollout", get_args(Rollout)),
    }


def _read_codecs(given: object) -> Codec | Mapping[str, Codec]:
    if not isinstance(given, Mapping):
        return _checked(given)
    for queue in given:
        whole_queue(queue, "a queue's name in codec")
    return {queue: _checked(codec) for queue, codec in given.items()}


def opened(payloads: Payloads | None, kind: Kind, queue: str, id: str, stored: bytes, name: str = "") -> bytes:
    """Return a stored value as JSON, also for an app without codecs; raises as `Payloads.open_value`."""
    if payloads is not None:
        return payloads.open_value(kind, queue, id, stored, name)
    plain = envelope.readable(stored)
    if plain is None:
        raise no_codec(_described(kind, queue, id))
    return plain


def no_codec(what: str) -> PayloadKeyUnknown:
    """Return the error of an app without a codec for an encrypted payload."""
    return PayloadKeyUnknown(f"{what} is encrypted, and this app has no codec: pass Lockwork(codec=...) with its key")


def _checked(codec: Any) -> Codec:
    if isinstance(codec, type) or not isinstance(codec, HmacCodec | PayloadCodec):
        raise ConfigError(
            "codec is an object such as AesGcmCodec(keys) or HmacCodec(keys), or a dict of them by queue, not "
            f"{type(codec).__name__}"
        )
    ids = codec.key_ids
    if isinstance(ids, str) or not ids or not all(isinstance(id, str) and KEY_ID.fullmatch(id) for id in ids):
        raise ConfigError("a codec's key_ids are ids of 1 to 40 letters, digits, '_' and '-'; the first encrypts")
    return codec


def _text(raw: msgspec.Raw | None) -> str:
    value = None if raw is None else records.decoded(bytes(raw))
    return value if isinstance(value, str) else ""


def _described(kind: str, queue: str, id: str) -> str:
    return f"the {kind} of {id!r} in queue {base_queue(queue)!r}" if queue else f"the result of once {id!r}"


def _netstring(part: bytes) -> bytes:
    return b"%d:%b" % (len(part), part)
