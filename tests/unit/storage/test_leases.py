"""Leases: one writer at a time, takeover of dead writers, and no clocks."""

from __future__ import annotations

import json
import multiprocessing
import os
import time

import pytest

from bert_tf.storage import Store
from bert_tf.storage.leases import END, LOOK, Lease, LeaseError

NAME = ".run.lease"


def other_lease(store: Store, **fields: object) -> None:
    store.write(NAME, json.dumps({"token": "other", "host": "elsewhere", "pid": 7, "renewals": 0} | fields).encode())


def lease_of(store: Store, token: str = "mine", sleep=lambda seconds: None) -> Lease:
    return Lease(store, "run", token, sleep)


def test_a_lease_is_held_until_it_is_released(bucket: str) -> None:
    store = Store(bucket)
    lease = lease_of(store)
    assert lease.acquire() is False
    lease.check()
    lease.release()
    assert store.read(NAME) is None


def test_a_living_writer_is_named(bucket: str) -> None:
    store = Store(bucket)
    other_lease(store)
    with pytest.raises(LeaseError, match="process 7 of elsewhere"):
        lease_of(store, sleep=lambda seconds: other_lease(store, renewals=1)).acquire()
    assert json.loads(store.read(NAME) or b"")["token"] == "other"


def test_a_lease_that_is_not_renewed_is_taken_over(bucket: str) -> None:
    store = Store(bucket)
    other_lease(store)
    waited: list[float] = []
    lease = lease_of(store, sleep=waited.append)
    assert lease.acquire() is False
    assert sum(waited) == END and set(waited) == {LOOK}
    lease.release()


def test_of_two_takeovers_one_succeeds(bucket: str) -> None:
    store = Store(bucket)
    other_lease(store)
    lease = lease_of(store)
    _, stored = lease._look()
    other_lease(store, token="third")
    with pytest.raises(FileExistsError):
        lease._write(stored)
    assert json.loads(store.read(NAME) or b"")["token"] == "third"


def test_a_renewal_does_not_overwrite_another_lease(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(bucket)
    lease = lease_of(store)
    lease.acquire()
    # Another process takes over between the look and the write of a renewal.
    look = lease._look()
    other_lease(store)
    monkeypatch.setattr(lease, "_look", lambda: look)
    assert not lease._renew()
    assert json.loads(store.read(NAME) or b"")["token"] == "other"


def test_clocks_are_not_compared(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(bucket)
    lease = lease_of(store, "first")
    lease.acquire()
    # A clock that is a day ahead.
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)
    with pytest.raises(LeaseError):
        lease_of(store, "second", lambda seconds: lease._renew()).acquire()
    lease.release()


@pytest.mark.parametrize("is_zombie", [False, True])
def test_the_lease_of_a_dead_process_of_this_machine_ends_at_once(bucket: str, is_zombie: bool) -> None:
    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    if is_zombie:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.join()
    store, waited = Store(bucket), []
    first = lease_of(store, "first")
    first.acquire()
    host = json.loads(store.read(NAME) or b"")["host"]
    other_lease(store, host=host, pid=process.pid)
    lease = lease_of(store, sleep=waited.append)
    lease.acquire()
    assert waited == []
    lease.release()


def test_a_killed_writer_recognises_its_own_lease(bucket: str) -> None:
    store = Store(bucket)
    lease_of(store).acquire()
    again = lease_of(store)
    assert again.acquire() is True
    again.release()


def test_a_writer_that_lost_its_lease_stops(bucket: str) -> None:
    store = Store(bucket)
    lease = lease_of(store)
    lease.acquire()
    other_lease(store)
    with pytest.raises(LeaseError, match="elsewhere"):
        lease.check()
    lease.release()
    assert json.loads(store.read(NAME) or b"")["token"] == "other"
