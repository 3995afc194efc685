"""Files of gossip keys: what is taken, what is refused, and that a refusal never shows a key."""

import base64
import os
import uuid
from pathlib import Path

import pytest

from raftlog.errors import InvalidArgument
from raftlog.membership.keys import KEYS_MAX, derived_keys, read_keys

ONE, OTHER = b"\x01" * 32, bytes(range(48))


def written(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    path = tmp_path / "keys"
    path.write_text(text)
    os.chmod(path, mode)
    return str(path)


def test_keys_are_read_in_hex_and_base64_and_the_first_one_signs(tmp_path: Path) -> None:
    path = written(tmp_path, f"# of spring\n{OTHER.hex()}\n\n{base64.b64encode(ONE).decode()}\n")
    keys, warning = read_keys(path)
    assert keys.accepted == (OTHER, ONE)
    assert keys.signing == OTHER
    assert warning == ""


def test_a_key_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    assert read_keys(written(tmp_path, f"{ONE.hex()}\n{ONE.hex().upper()}")).keys.accepted == (ONE,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_warned_about(tmp_path: Path, mode: int) -> None:
    assert "chmod 600" in read_keys(written(tmp_path, ONE.hex(), mode)).warning


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
def test_what_is_no_file_of_keys_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what) as refused:
        read_keys(written(tmp_path, text))
    assert "secret" not in str(refused.value)
    assert ONE.hex() not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nowhere"):
        read_keys(str(tmp_path / "nowhere"))


def test_a_key_does_not_show_itself(tmp_path: Path) -> None:
    keys = read_keys(written(tmp_path, ONE.hex())).keys
    assert repr(keys) == str(keys) == "<1 keys of gossip>"


def test_derived_keys_keep_clusters_apart() -> None:
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    assert derived_keys(one) == derived_keys(one) != derived_keys(other)
