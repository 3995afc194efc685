"""Files of the cluster secret: valid and refused ones; a refusal never shows a key."""

import base64
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftlog.cli.cluster.verbs import cluster
from raftlog.cluster_secret import KEYS_MAX, ClusterSecret, create_secret, ensure_secret, read_secret
from raftlog.errors import InvalidArgument

ONE, OTHER = b"\x01" * 32, bytes(range(48))


def write_secret(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    path = tmp_path / "secret"
    path.write_text(text)
    os.chmod(path, mode)
    return str(path)


def test_keys_are_read_in_hex_and_base64_in_their_order(tmp_path: Path) -> None:
    path = write_secret(tmp_path, f"# of spring\n{OTHER.hex()}\n\n{base64.b64encode(ONE).decode()}\n")
    assert read_secret(path) == (ClusterSecret((OTHER, ONE)), "")


def test_a_key_listed_twice_counts_once(tmp_path: Path) -> None:
    assert read_secret(write_secret(tmp_path, f"{ONE.hex()}\n{ONE.hex().upper()}")).secret.keys == (ONE,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_readable_by_others_is_logged_as_a_warning(tmp_path: Path, mode: int) -> None:
    assert "chmod 600" in read_secret(write_secret(tmp_path, ONE.hex(), mode)).warning


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds 0 keys"),
        ("# nothing\n", "holds 0 keys"),
        ("\n".join((bytes([number]) * 32).hex() for number in range(KEYS_MAX + 1)), f"holds {KEYS_MAX + 1} keys"),
        (ONE.hex() + "\n" + "secret word!", "line 2: neither hex nor base64"),
        (b"short".hex(), "line 1: a key of 5 bytes"),
        ("x" * 20_000, "more than"),
    ],
)
def test_invalid_secret_files_are_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what) as refused:
        read_secret(write_secret(tmp_path, text))
    assert "secret word" not in str(refused.value)
    assert ONE.hex() not in str(refused.value)


def test_the_error_for_a_missing_file_has_the_command_to_create_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere.*raftlog cluster secret create FILE"):
        read_secret(str(tmp_path / "nowhere"))


def test_keys_for_different_purposes_differ() -> None:
    secret = ClusterSecret((ONE, OTHER))
    rpc, gossip = secret.derive(b"rpc"), secret.derive(b"gossip")
    assert rpc == secret.derive(b"rpc")
    assert len({*rpc, *gossip, ONE, OTHER}) == 6


def test_a_new_secret_is_random_private_and_never_overwrites(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    create_secret(first)
    create_secret(second)
    assert stat.S_IMODE(os.stat(first).st_mode) == 0o600
    keys = read_secret(first).secret.keys
    assert keys != read_secret(second).secret.keys
    with pytest.raises(InvalidArgument, match="exists already"):
        create_secret(first)
    assert ensure_secret(first) == first
    assert read_secret(first).secret.keys == keys
    with pytest.raises(InvalidArgument, match="cannot be written"):
        create_secret(str(tmp_path / "missing" / "secret"))


def test_the_command_prints_its_instructions(tmp_path: Path) -> None:
    path = str(tmp_path / "secret")
    done = CliRunner().invoke(cluster, ["secret", "create", path])
    assert done.exit_code == 0, done.output
    assert f"--cluster-secret-file {path}" in done.output
    assert read_secret(path).secret.keys[0].hex() not in done.output
    again = CliRunner().invoke(cluster, ["secret", "create", path])
    assert isinstance(again.exception, InvalidArgument)
