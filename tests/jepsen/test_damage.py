"""Damage to the files of a stopped real broker is at its reported place, and nowhere else."""

import filecmp
import shutil
from collections.abc import Callable
from pathlib import Path, PurePath
from random import Random

import pytest

from jepsen.damage import Snapshot, delete, flip_bits, truncate, wipe
from jepsen.damage.files import KINDS, SURVIVABLE, find_files, kind_of
from raftlog.testing import Cluster
from raftlog.testing.http import ask

TRIES = 40
Act = Callable[[Path, Random, tuple[str, ...]], str]
ALONE = tuple(kind for kind in KINDS if kind != "checkpoint")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a stopped broker with a topic of two partitions."""
    directory = tmp_path_factory.mktemp("stopped")
    with Cluster(1, data_dir=directory) as cluster:
        address = cluster.addresses[0]
        body: object = {"topic_name": "orders", "partitions_count": 2, "replication_factor": 1}
        cluster_id = ask(address, "/v3/clusters")[1]["data"][0]["cluster_id"]
        assert ask(address, f"/v3/clusters/{cluster_id}/topics", method="POST", body=body)[0] == 201
        for number in range(10):
            records = [{"partition": part, "value": {"number": number}} for part in (0, 1)]
            assert ask(address, "/topics/orders", method="POST", body={"records": records})[0] == 200
        assert cluster.nodes[1].stop() == 0
    return directory / "1"


@pytest.fixture
def data_dir(stopped: Path, tmp_path: Path) -> Path:
    shutil.copytree(stopped, tmp_path / "1")
    return tmp_path / "1"


def changed_positions(one: Path, other: Path) -> dict[str, list[int]]:
    """Return the positions at which the bytes of common files differ.

    A shorter file gives its length, a missing one -1."""
    names = {str(path.relative_to(root)) for root in (one, other) for path in root.rglob("*") if path.is_file()}
    found = {}
    for name in names:
        pair = [root / name for root in (one, other)]
        if not all(path.exists() for path in pair):
            found[name] = [-1]
        elif not filecmp.cmp(*pair, shallow=False):
            before, after = (path.read_bytes() for path in pair)
            found[name] = changed_page_bytes(before, after) if len(before) == len(after) else [len(after)]
    return found


def changed_page_bytes(before: bytes, after: bytes) -> list[int]:
    size = 4096
    pages = [at for at in range(0, len(before), size) if before[at : at + size] != after[at : at + size]]
    return [at for page in pages for at in range(page, min(page + size, len(before))) if before[at] != after[at]]


def test_every_kind_of_file_is_found(data_dir: Path) -> None:
    assert {file.kind for file in find_files(data_dir, KINDS)} == set(ALONE)
    assert {file.kind for file in find_files(data_dir)} == set(ALONE) & set(SURVIVABLE)
    with pytest.raises(ValueError, match="no kind of file: journals"):
        find_files(data_dir, ("journals",))


@pytest.mark.parametrize("kind", ALONE)
def test_bits_are_flipped_at_the_described_positions(stopped: Path, data_dir: Path, kind: str) -> None:
    words = flip_bits(data_dir, Random(7), 3, (kind,)).split("; ")
    said: dict[str, list[int]] = {}
    for flip in words:
        name, _, rest = flip.partition(" at ")
        said.setdefault(name, []).append(int(rest.partition(":")[0].replace(",", "")))
    assert len(words) == 3
    assert changed_positions(stopped, data_dir) == {name: sorted(positions) for name, positions in said.items()}
    for name, positions in said.items():
        assert kind_of(PurePath(name)) == kind
        meant = (stopped / name).read_bytes()
        for position in positions:
            assert any(meant[position : position + 4096]), "behind the end nothing means anything"


@pytest.mark.parametrize(("act", "words"), [(truncate, "is cut to"), (delete, "is deleted")])
def test_one_file_is_truncated_or_deleted(stopped: Path, data_dir: Path, act: Act, words: str) -> None:
    names = set()
    for seed in range(TRIES):
        said = act(data_dir, Random(seed), ("segment", "index"))
        assert words in said
        [(name, where)] = changed_positions(stopped, data_dir).items()
        assert said.startswith(name)
        assert where == [-1] if act is delete else where[0] < len((stopped / name).read_bytes().rstrip(b"\0"))
        names.add(name)
        (data_dir / name).unlink(missing_ok=True)
        shutil.copy(stopped / name, data_dir / name)
    assert len({kind_of(PurePath(name)) for name in names}) == 2


def test_without_files_no_damage_is_recorded(tmp_path: Path) -> None:
    assert not flip_bits(tmp_path, Random(1), 3)
    assert not truncate(tmp_path, Random(1))
    assert not delete(tmp_path, Random(1))
    assert not wipe(tmp_path)


def test_a_wiped_directory_is_empty(data_dir: Path) -> None:
    assert "deleted" in wipe(data_dir)
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize("part", ["", "orders/1"])
def test_an_old_copy_replaces_the_files(stopped: Path, data_dir: Path, tmp_path: Path, part: str) -> None:
    old = Snapshot(data_dir, tmp_path / "state", part)
    assert "are copied" in old.take()
    assert flip_bits(data_dir, Random(1), 2, ("segment",))
    inside = data_dir / "orders" / "1"
    (inside / "new").touch()
    next(inside.glob("*.log")).unlink()
    words = old.restore()
    assert words.startswith(f"{part or 'everything'} is as it was ")
    assert words.endswith(" 1 of them are missing")
    assert set(changed_positions(stopped, data_dir)) <= {"orders/0/00000000000000000000.log"}
    assert not part or not changed_positions(stopped / part, data_dir / part)
    old.take()
    assert not old.restore(), "nothing has changed since"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (".raftlog/controller/00000000000000000000.log", "controller"),
        (".raftlog/controller/.raftlog/meta", "meta"),
        ("orders/0/.raftlog/meta", "meta"),
        ("orders/0/00000000000000000000.timeindex", "timeindex"),
        ("orders/0/.raftlog/damaged/00000000000000000000.log", None),
        (".raftlog/damaged/x.journal", None),
        (".raftlog/lock", None),
        (".raftlog/trash/x/00000000000000000000.log", None),
        (".raftlog/checkpoint", "checkpoint"),
        (".raftlog/journal/00000000-0000-0000-0000-000000000001/00000001.journal", "journal"),
    ],
)
def test_files_are_classified_by_name(name: str, kind: str | None) -> None:
    assert kind_of(PurePath(name)) == kind
