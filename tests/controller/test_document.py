"""docs/FORMATS.md compared with the files of a node: every file is described, and no other is written."""

import json
from pathlib import Path

import pytest
from crc32c import crc32c

from raftlog.storage.directory import FORMAT_VERSION
from tests.controller.brokers import brokers
from tests.layouts import items_after

ENVELOPE = ["format", "kind"]


async def test_the_files_of_a_node_are_those_described(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2), seeds=(1,)) as cluster:
        await cluster.start()
    for number in (1, 2):
        for name in ("identity", "peers", "bootstrap"):
            text = (tmp_path / str(number) / ".raftlog" / name).read_text()
            assert text.endswith("}\n")
            body = json.loads(text)
            stated = body.pop("crc32c")
            assert stated == crc32c(json.dumps(body, sort_keys=True).encode())
            assert (body["format"], body["kind"]) == (FORMAT_VERSION, name)
            described = [head.strip("`") for head, _ in items_after(f"file: {name}")]
            assert list(body) == [*ENVELOPE, *described]


@pytest.mark.parametrize("name", ["identity", "peers", "bootstrap"])
def test_no_file_is_described_twice(name: str) -> None:
    members = [head for head, _ in items_after(f"file: {name}")]
    assert len(set(members)) == len(members)
