"""Configuration file of `raftlog serve`: precedence, errors that name key and remedy, and `raftlog config check`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli.entry import raftlog
from raftlog.cli.serve.config_file import keys_of
from raftlog.cli.serve.verb import serve
from raftlog.testing import BrokerProcess

GOOD = """
format = 1
data-dir = "/var/lib/raftlog"
http = "127.0.0.1:0"
kafka = ["none"]
node-id = 3
retention-interval-s = 5
[topic-config]
"retention.ms" = -1
"cleanup.policy" = "compact"
"""


def check(path: Path, *flags: str, variables: dict[str, str] | None = None) -> Any:
    done = CliRunner(env=variables).invoke(raftlog, ["config", "check", str(path), "--json", *flags])
    assert done.exception is None, f"{done.output} {done.exception}"
    return json.loads(done.output)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "raftlog.toml"
    path.write_text(text)
    return path


def test_variables_precede_the_file_which_precedes_defaults(tmp_path: Path) -> None:
    found = check(written(tmp_path, GOOD), variables={"RAFTLOG_NODE_ID": "7"})["settings"]
    assert found["node-id"] == {"value": 7, "source": "variable"}
    assert found["data-dir"] == {"value": "/var/lib/raftlog", "source": "file"}
    assert found["kafka"]["value"] == ["none"]
    assert found["topic-config"]["value"] == {"retention.ms": "-1", "cleanup.policy": "compact"}
    assert "rpc" not in found


def test_a_broker_uses_the_file_below_its_flags(tmp_path: Path) -> None:
    text = GOOD.replace("/var/lib/raftlog", str(tmp_path / "unused"))
    flags = ("--config", str(written(tmp_path, text)), "--node-id", "5")
    with BrokerProcess(tmp_path / "data", *flags) as broker:
        broker.start()
        assert broker.ready["node_id"] == 5
        assert broker.ready["data_dir"] == str(tmp_path / "data")
        assert broker.ready["kafka"] is None
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('nod-id = "x"', "'nod-id' is no setting; did you mean 'node-id'?"),
        ('data_dir = "x"', "'data_dir' is no setting; did you mean 'data-dir'?"),
        ("zzzz = 1", "'zzzz' is no setting; `raftlog serve --help`"),
        ('config = "x"', "'config' is no setting"),
        ('node-id = "x"', "node-id is 'x'; it must be a whole number"),
        ("node-id = 1.5", "node-id is 1.5; it must be a whole number"),
        ("node-id = true", "node-id is true; it must be a whole number"),
        ("node-id = -4", "node-id is -4: -4 is not in the range"),
        ("trace = nan", "trace is nan: nan is not a number"),
        ("http = 8082", "http is 8082; it must be a string"),
        ('http = "8082"', "is not HOST:PORT"),
        ("kafka = [1]", "kafka is [1]; it must be a list, each item a string"),
        ('insecure = "yes"', "insecure is 'yes'; it must be true or false"),
        ('retention-interval-s = "x"', "it must be a number"),
        ('authorization = "acle"', "authorization is 'acle': 'acle' is not one of"),
        ('[topic-config]\n"retention.m" = 1', "'retention.m' is no setting of a topic; did you mean 'retention.ms'?"),
        ('[topic-config]\n"retention.ms" = -7', "topic-config: retention.ms=-7 is out of range"),
        (
            "[topic-config]\nretention.ms = 1",
            'topic-config: retention.ms needs quotes, as names with dots do: "retention',
        ),
        ("memory-budget-bytes = -1", "--memory-budget-bytes=-1 is out of range"),
        ("http-connections-max = 0", "--http-connections-max=0 is out of range"),
        ("keepalive-timeout-s = -1", "--keepalive-timeout-s=-1.0 is out of range"),
        ('data-dir = ""', "--data-dir is empty"),
        ("format = 2", "is for a newer raftlog"),
        ('format = "1"', "format is '1'; this release reads format = 1"),
        ("node-id = ", "is not TOML"),
        ("node-id = 1\nnode-id = 2", "is not TOML"),
        ('tls-certificate = "/none"\ntls-key = "/none"', "/none"),
        ('http = "0.0.0.0:1"', "without TLS"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check(written(tmp_path, text))
    assert error in str(raised.value)


def test_unreadable_files_are_named(run: Any, tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path, error in ((tmp_path / "none.toml", b"cannot be read"), (tmp_path, b"cannot be read"), (binary, b"TOML")):
        assert error in run("config", "check", str(path), expect=1).stderr
        assert error in run("serve", "--config", str(path), expect=1).stderr
    assert b"is valid: 2 settings" in run("config", "check", str(written(tmp_path, "node-id = 4\nkafka = []"))).stdout


def test_one_file_is_checked_at_a_time(run: Any, tmp_path: Path) -> None:
    path = str(written(tmp_path, "node-id = 4"))
    assert b"give one file" in run("config", "check", path, "--config", "another", expect=2).stderr
    assert b"is valid" in run("config", "check", path, env={"RAFTLOG_CONFIG": "another"}).stdout


def test_every_flag_is_a_key() -> None:
    flags = {name for each in serve.params for name in each.opts if name.startswith("--")}
    hidden = {name for each in serve.params if getattr(each, "hidden", False) for name in each.opts}
    assert flags - hidden == {f"--{key}" for key in keys_of(serve)} | {"--config"}


def test_the_example_is_valid(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    example = root / "deploy" / "raftlog.toml"
    values = tomllib.loads(example.read_text())
    assert values["format"] == 1
    assert check(example)["settings"].keys() == values.keys() - {"format"}
