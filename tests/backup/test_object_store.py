"""Backups in an S3 server in a process of its own, reached over HTTP."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from raftlog.backup.errors import BackupDamaged, BackupRefused, StoreUnreachable
from raftlog.backup.object_store import ObjectStore
from raftlog.backup.restore import RestoreOptions, RestorePlan, check_backup
from raftlog.backup.state import BackupRun
from raftlog.backup.stores import open_store
from raftlog.testing.ports import reserve_port
from tests.backup.conftest import Serve, create, restore, save
from tests.waiting import block_until

SECONDS_MAX = 60


def free_port() -> int:
    with reserve_port() as reserved:
        return int(reserved.getsockname()[1])


def answers_requests(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False  # it does not listen yet
    return True


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Address of the S3 server."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        block_until(
            lambda: process.poll() is not None or answers_requests(f"{address}/moto-api/"), within_s=SECONDS_MAX
        )
        assert process.poll() is None, "the S3 server ended"
        yield address
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of a new bucket, with the variables that reach it."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"b-{uuid.uuid4()}"
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=20).close()
    return f"s3://{name}"


def test_objects_are_written_created_once_listed_and_deleted(bucket: str) -> None:
    store = open_store(f"{bucket}/backup/")
    assert isinstance(store, ObjectStore)
    assert store.names() == set()
    assert store.read("commits/1") is None
    assert store.create("commits/1", b"first")
    assert not store.create("commits/1", b"second")
    assert store.read("commits/1") == b"first"
    store.write("data/a/b", bytearray(b"x") * 6_000_000)
    store.write("data/a/b", b"replaced")
    assert store.read("data/a/b") == b"replaced"
    assert store.list("data") == ["data/a/b"]
    assert store.list("none") == []
    assert {"commits", "data"} <= store.names()
    store.delete("data/a/b")
    store.delete("data/a/b")
    assert store.list("data") == []


def test_a_folder_that_a_console_created_is_an_empty_place(bucket: str, endpoint: str) -> None:
    name = bucket.removeprefix("s3://")
    request = urllib.request.Request(f"{endpoint}/{name}/backups/", data=b"", method="PUT")
    urllib.request.urlopen(request, timeout=20).close()
    run = BackupRun.claim(open_store(f"{bucket}/backups"), "cluster")
    assert run.store.names() == {"commits", "runs"}


def test_a_lost_answer_to_the_first_write_is_no_refusal(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(f"{bucket}/backup")
    create, calls = store._create, count()

    def lose_first_answer(path: str, data: bytes) -> bool:
        return create(path, data) and next(calls) > 0

    monkeypatch.setattr(store, "_create", lose_first_answer)
    assert store.create("commits/0", b"first")


async def test_a_backup_in_s3_is_extended_checked_and_restored(bucket: str, serve: Serve) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 2)
    await old.produce("orders", 0, 0, 300)
    store = open_store(f"{bucket}/clusters/one")
    await save(old, store)
    await old.produce("orders", 1, 0, 30)
    assert (await save(old, open_store(f"{bucket}/clusters/one"))).records == 30
    assert (await check_backup(RestorePlan(store, RestoreOptions()), lambda _: None)).records == 330
    await restore(new, store)
    for partition in range(2):
        assert await new.content("orders", partition) == await old.content("orders", partition)
    victim = RestorePlan(store, RestoreOptions()).parts[0].files[0].path
    store.write(victim, b"damaged")
    with pytest.raises(BackupDamaged, match="checksum"):
        await check_backup(RestorePlan(store, RestoreOptions()), lambda _: None)


def test_a_store_that_ignores_conditions_is_refused(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(f"{bucket}/backup")
    pipe = store._files.pipe_file
    monkeypatch.setattr(store._files, "pipe_file", lambda path, data, **_: pipe(path, data))
    with pytest.raises(BackupRefused, match="ignores If-None-Match"):
        store.create("commits/0", b"")


def test_missing_buckets_and_servers_are_named(bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="s3://none-such"):
        open_store("s3://none-such/x").create("commits/0", b"")
    with pytest.raises(BackupRefused, match="cannot be used"):
        open_store("nothing://x")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StoreUnreachable, match="file"):
        open_store(str(file)).write("commits/0", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StoreUnreachable, match="store at s3://b/x"):
        open_store("s3://b/x").read("commits/0")
