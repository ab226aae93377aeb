"""An app whose jobs are encrypted, for workers and commands in other processes."""

import os

from lockwork import Lockwork, current_job
from lockwork.contrib.cryptography import AesGcmCodec

KEYS = {name: name[0].encode() * 32 for name in os.environ.get("VAULT_KEYS", "old").split(",")}

lw = Lockwork(codec=AesGcmCodec(KEYS))


@lw.task(executor="process")
def hashed(card: str) -> str:
    current_job().progress(card)
    return card[::-1]


@lw.task(executor="process", retries=0)
def broken(card: str) -> None:
    raise ValueError(card)


@lw.task(hard_timeout=1, retries=0)
def endless(card: str) -> None:
    while True:
        pass


@lw.task(queue="mail")
def send(card: str, *, times: int = 1) -> str:
    return card * times
