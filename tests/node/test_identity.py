"""Identity of a process: boot epochs, durability and refusals; on the simulated disk, with power losses."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import DirectoryLocked, FormatError, InvalidArgument, StorageError
from raftlog.partitions.node.identity import NodeDirectory
from raftlog.runtime.log import sealed_file
from raftlog.runtime.log.sealed_file import read_sealed, submit_sealed, write_sealed
from raftlog.storage import directory
from raftlog.storage.directory import internal_path, make_directory, write_meta
from raftlog.types import NodeId

PATH = "/data"
SEALED = "/data/sealed"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(1))


_uuids: Iterator[int] = iter(range(1, 1 << 30))


def open_directory(disk: SimulatedDisk, node: int = 1, cluster: str | None = None) -> NodeDirectory:
    """Open the directory, and count the start, as after the recovery of the disk."""
    directory = NodeDirectory.open(disk, PATH, NodeId(node), cluster, lambda: uuid.UUID(int=next(_uuids)))
    directory.count_start()
    return directory


def read_sealed_fields(disk: SimulatedDisk) -> Mapping[str, object]:
    found = read_sealed(disk, SEALED, "number")
    assert found is not None
    return found.fields


def overwrite(disk: SimulatedDisk, path: str, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.write(position, [data])
    file.close()


def test_every_start_raises_the_boot_epoch_and_changes_nothing_else(disk: SimulatedDisk) -> None:
    first = open_directory(disk)
    first.join_cluster("blue")
    first.mark_journal_created()
    first.close()
    second = open_directory(disk)
    assert second.identity == first.identity._replace(boot_epoch=2)
    assert (second.identity.cluster_id, second.identity.has_journal) == ("blue", True)


def test_the_boot_epoch_is_durable_once_the_start_is_counted(disk: SimulatedDisk) -> None:
    for start in range(1, 20):
        assert open_directory(disk).identity.boot_epoch == start
        disk.power_loss()


def test_a_start_that_cannot_recover_the_disk_does_not_count(disk: SimulatedDisk) -> None:
    """A stale copy that repeatedly fails to start must not overtake the boot epoch that other nodes remember."""
    open_directory(disk).close()
    for _ in range(5):
        directory = NodeDirectory.open(disk, PATH, NodeId(1), None, uuid.uuid4)
        assert directory.identity.boot_epoch == 2
        directory.close()
        disk.power_loss()
    assert open_directory(disk).identity.boot_epoch == 2


@pytest.mark.parametrize("seed", range(30))
def test_power_loss_during_any_start_leaves_a_usable_directory(seed: int) -> None:
    disk, random = SimulatedDisk(Random(seed)), Random(seed)
    epoch, disk_uuid = 0, None
    for _ in range(6):
        left = random.randrange(12)
        sync = disk.sync

        def failing(*arguments: object, sync: object = sync) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(5, "the power failed")
            sync(*arguments)  # type: ignore[operator]

        disk.sync = failing  # type: ignore[method-assign, assignment]
        with suppress(StorageError, OSError):
            identity = open_directory(disk).identity
            assert identity.boot_epoch > epoch
            assert disk_uuid in (None, identity.disk_uuid)
            epoch, disk_uuid = identity.boot_epoch, identity.disk_uuid
        del disk.sync  # type: ignore[method-assign]
        disk.power_loss()
    identity = open_directory(disk).identity
    assert identity.boot_epoch > epoch
    assert disk_uuid in (None, identity.disk_uuid)


def test_a_directory_belongs_to_one_process_node_and_cluster(disk: SimulatedDisk) -> None:
    first = open_directory(disk, cluster="blue")
    with pytest.raises(DirectoryLocked, match="open in another process"):
        open_directory(disk)
    first.close()
    with pytest.raises(InvalidArgument, match="belongs to node 1, and this is node 2"):
        open_directory(disk, node=2)
    with pytest.raises(InvalidArgument, match="belongs to cluster blue, and not to red"):
        open_directory(disk, cluster="red")
    again = open_directory(disk)
    assert again.identity.boot_epoch == 2, "a refused start was counted"
    with pytest.raises(InvalidArgument, match="belongs to cluster blue"):
        again.join_cluster("red")
    again.join_cluster("blue")


def test_a_directory_of_another_format_is_refused_and_left_alone(disk: SimulatedDisk) -> None:
    make_directory(disk, internal_path(PATH))
    write_meta(disk, PATH, "log", {"group_id": str(uuid.UUID(int=1))})
    with pytest.raises(FormatError, match="directory of a log, not of a node"):
        open_directory(disk)
    assert disk.list_directory(internal_path(PATH)) == ["meta"]


def test_a_foreign_directory_is_refused_and_left_alone(disk: SimulatedDisk) -> None:
    make_directory(disk, f"{PATH}/photos")
    with pytest.raises(FormatError, match=r"is not empty .it holds 'photos'"):
        open_directory(disk)
    assert disk.list_directory(PATH) == ["photos"]
    make_directory(disk, "/other")
    disk.open("/other/file", create=True).close()
    with pytest.raises(StorageError, match="is a file"):
        NodeDirectory.open(disk, "/other/file", NodeId(1), None, uuid.uuid4)


def test_a_lost_or_damaged_identity_is_not_replaced(disk: SimulatedDisk) -> None:
    open_directory(disk).close()
    name = internal_path(PATH, "identity")
    overwrite(disk, name, 30, b"?")
    with pytest.raises(FormatError, match=r"damaged.*as a new member"):
        open_directory(disk)
    disk.unlink(name)
    with pytest.raises(FormatError, match="is missing, and /data was in use"):
        open_directory(disk)


def test_a_new_disk_uuid_keeps_the_boot_epoch_and_the_old_journal(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    old = directory.identity
    make_directory(disk, internal_path(PATH, "journal", str(old.disk_uuid)))
    directory.mark_journal_created()
    directory.replace_disk(uuid.UUID(int=999))
    make_directory(disk, internal_path(PATH, "journal", str(uuid.UUID(int=999))))
    directory.keep_old_journals()
    directory.close()
    identity = open_directory(disk).identity
    assert (identity.disk_uuid, identity.has_journal, identity.boot_epoch) == (uuid.UUID(int=999), False, 2)
    assert disk.list_directory(internal_path(PATH, "journal")) == [str(uuid.UUID(int=999))]
    assert disk.list_directory(internal_path(PATH, "damaged")) == [f"journal-{old.disk_uuid}"]


@pytest.mark.parametrize("seed", range(20))
def test_a_sealed_file_has_the_old_or_the_new_content(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    make_directory(disk, PATH)
    write_sealed(disk, SEALED, "number", {"value": 0})
    done: list[OSError | None] = []
    submit_sealed(disk, SEALED, "number", {"value": 1}, done.append)
    if seed % 2:
        disk.complete_next()
    disk.power_loss()
    assert read_sealed_fields(disk) in ({"value": 0}, {"value": 1})
    submit_sealed(disk, SEALED, "number", {"value": 2}, done.append)
    disk.complete_all()
    disk.power_loss()
    assert read_sealed_fields(disk) == {"value": 2}
    assert done == [None]


@pytest.mark.parametrize("wrong", [b"", b"[]", b"{}", b'{"crc32c": 1, "format": 1, "kind": "number"}'])
def test_unsealed_files_are_refused(disk: SimulatedDisk, wrong: bytes) -> None:
    make_directory(disk, PATH)
    file = disk.open(SEALED, create=True)
    file.write(0, [wrong])
    file.close()
    with pytest.raises(FormatError):
        read_sealed(disk, SEALED, "number")


def test_a_sealed_file_of_another_kind_is_refused(disk: SimulatedDisk) -> None:
    make_directory(disk, PATH)
    write_sealed(disk, SEALED, "number", {})
    with pytest.raises(FormatError, match="holds 'number', and not 'word'"):
        read_sealed(disk, SEALED, "word")


@pytest.mark.parametrize("has_meta", [True, False], ids=["meta", "meta lost"])
def test_a_directory_of_an_earlier_format_is_refused_and_left_alone(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, has_meta: bool
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(directory, "FORMAT_VERSION", 1)
        earlier.setattr(sealed_file, "FORMAT_VERSION", 1)
        open_directory(disk).close()
    if not has_meta:
        disk.unlink(internal_path(PATH, "meta"))
    before = disk.snapshot()
    with pytest.raises(FormatError, match=r"format version 1.*reads.* version 2.*empty directory"):
        open_directory(disk)
    assert {name: data for name, data in disk.snapshot().items() if data} == {n: d for n, d in before.items() if d}
