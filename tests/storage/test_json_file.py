"""Small JSON files: any damage is reported with the file's path."""

import json
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import FormatError, SmallFileDamaged
from raftlog.runtime.log.sealed_file import read_sealed, write_sealed
from raftlog.storage.json_file import BYTES_MAX, JsonFile, compute_checksum, encode_json, read_json_file
from raftlog.storage.real_disk import RealDisk

DISK = RealDisk(lambda job: job())
FIELDS: dict[str, Any] = {"format": 1, "kind": "thing", "name": "é", "count": 7, "is_on": True, "list": ["a"]}


def write_file(path: Path, content: bytes) -> str:
    (path / "thing").write_bytes(content)
    return str(path / "thing")


def read(path: Path, content: bytes) -> JsonFile | None:
    return read_json_file(DISK, write_file(path, content))


def write_valid_file(path: Path, **fields: Any) -> JsonFile:
    found = read(path, encode_json({**FIELDS, **fields}))
    assert found is not None
    return found


def test_written_content_is_read(tmp_path: Path) -> None:
    file = write_valid_file(tmp_path)
    assert (file.format_version, file.kind) == (1, "thing")
    assert (file.text("name"), file.number("count"), file.flag("is_on"), file.items("list")) == ("é", 7, True, ["a"])
    assert read_json_file(DISK, str(tmp_path / "none")) is None


def test_every_flipped_bit_and_every_truncation_is_damage(tmp_path: Path) -> None:
    content = encode_json(FIELDS)
    damaged = [
        content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        for at in range(len(content))
        for bit in range(8)
    ]
    meant = json.loads(content)
    for wrong in [*damaged, *(content[:size] for size in range(len(content) - 1))]:
        assert outcome(tmp_path, wrong) in (f"{tmp_path}/thing is damaged: ", meant), "only what means the same passes"


def outcome(path: Path, content: bytes) -> object:
    """Return the beginning of the error, or the content."""
    try:
        read(path, content)
    except SmallFileDamaged as error:
        return str(error)[: len(f"{path}/thing is damaged: ")]
    return json.loads(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\x00\x00\x00{", r"it is no JSON .Expecting value at 0.; it holds b'\\x00\\x00\\x00{'"),
        (b"\x00\x00\xfe\xff", "its byte 2 is no UTF-8; it holds"),
        (b"[" * 100_000, "recursion"),
        (b"[1]", r"it holds \[1\], and not a JSON object"),
        (b'{"format": 1}', "its field 'crc32c' is missing"),
        (b'{"format": 1, "crc32c": "x"}', "its checksum does not match"),
        (encode_json({"kind": "thing"}), "its field 'format' is missing"),
        (encode_json({"format": 1}), "its field 'kind' is missing"),
        (encode_json({"format": "1", "kind": "thing"}), "its format is '1' of kind 'thing'"),
        (encode_json({"format": True, "kind": "thing"}), "its format is True"),
        (b" " * (BYTES_MAX + 1), f"it has {BYTES_MAX + 1} bytes, at most {BYTES_MAX} are allowed"),
        (b"1" * 5000, "int"),
    ],
)
def test_foreign_files_are_refused_by_path(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(SmallFileDamaged, match=rf"/thing is damaged: .*{why}"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("name", "read_field", "why"),
    [
        ("none", JsonFile.text, "its field 'none' is missing"),
        ("count", JsonFile.text, "its field 'count' is 7, not a text"),
        ("count", JsonFile.text_or_none, "its field 'count' is 7, not a text or null"),
        ("none", JsonFile.text_or_none, "its field 'none' is missing"),
        ("is_on", JsonFile.number, "its field 'is_on' is True, not a whole number"),
        ("big", JsonFile.number, "its field 'big' is 9223372036854775808, not a number from 0"),
        ("low", JsonFile.number, "its field 'low' is -1, not a number from 0"),
        ("count", JsonFile.flag, "its field 'count' is 7, not true or false"),
        ("name", JsonFile.items, "its field 'name' is 'é', not a list"),
        ("name", JsonFile.uuid, "its field 'name' is 'é', not a uuid"),
        ("none", JsonFile.uuid, "its field 'none' is missing"),
    ],
)
def test_a_field_of_another_type_is_damage(tmp_path: Path, name: str, read_field: Any, why: str) -> None:
    file = write_valid_file(tmp_path, big=1 << 63, low=-1)
    with pytest.raises(SmallFileDamaged, match=f"/thing is damaged: {why}"):
        read_field(file, name)


def test_defaults_are_for_missing_fields_only(tmp_path: Path) -> None:
    file = write_valid_file(tmp_path, nothing=None)
    assert (file.text_or_none("nothing"), file.text_or_none("none", None)) == (None, None)
    assert (file.flag("none", False), file.items("none", [])) == (False, [])
    assert file.parse_field("none", list, "a list", "ab") == ["a", "b"]


def test_another_version_is_refused_only_in_an_undamaged_file(tmp_path: Path) -> None:
    path = str(tmp_path / "thing")
    write_sealed(DISK, path, "thing", {"name": "x"})
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.replace(b'"format": 2', b'"format": 3'))
    with pytest.raises(SmallFileDamaged, match="its checksum does not match"):
        read_sealed(DISK, path, "thing")
    Path(path).write_bytes(encode_json({"format": 3, "kind": "thing", "name": "x"}))
    with pytest.raises(
        FormatError, match="has format version 3; this program reads version 2: use the release"
    ) as refused:
        read_sealed(DISK, path, "thing")
    assert not isinstance(refused.value, SmallFileDamaged)


def test_the_checksum_is_as_documented(tmp_path: Path) -> None:
    assert compute_checksum({"b": 1, "a": "é"}) == compute_checksum({"a": "é", "b": 1})
    assert json.loads(encode_json({"a": 1})) == {"a": 1, "crc32c": compute_checksum({"a": 1})}
