"""TLS of the listeners as `raftlog serve` derives it from its flags, and the reload of changed files."""

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from raftlog.cli.serve.tls_options import check_reach, tls_plan_from
from raftlog.cli.serve.tls_reload import TlsReloader
from raftlog.errors import InvalidArgument
from raftlog.security.authority import PrivateAuthority
from raftlog.security.tls_files import ClientCertificates, ServerTls
from tests.security.certificates import create


def plan(*kafka: str, **given: Any) -> tuple[dict[str, ServerTls], dict[str, Any]]:
    """Return the plan, and the options that are left."""
    names = ("tls_certificate", "tls_key", "tls_authority", "plaintext", "client_certificates")
    rpc = dict.fromkeys(("rpc", "rpc_certificate", "rpc_key", "rpc_authority"))
    arguments = {**dict.fromkeys(names, ()), **rpc, **given}
    return tls_plan_from(arguments, kafka), arguments


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    authority, node, _ = create(tmp_path / "a=b")
    return {"tls_certificate": (node.certificate,), "tls_key": (node.key,), "tls_authority": (authority,)}


def test_without_certificates_nothing_has_tls() -> None:
    assert plan("kafka")[0] == {}


def test_files_hold_for_all_listeners_unless_one_is_excluded(files: dict[str, Any]) -> None:
    found, rest = plan("in", "out", plaintext=("in",), rpc="127.0.0.1:1", **files)
    assert list(found) == ["http", "out"]
    assert rest["rpc_certificate"] == files["tls_certificate"][0]
    assert rest["rpc_authority"] == files["tls_authority"][0]
    found, rest = plan("in", plaintext=("rpc", "http"), rpc="127.0.0.1:1", **files)
    assert list(found) == ["in"]
    assert rest["rpc_certificate"] is None
    assert plan(rpc=None, **files)[1]["rpc_certificate"] is None
    assert plan(rpc="127.0.0.1:1", **files | {"rpc_key": "own.key"})[1]["rpc_certificate"] is None


def test_files_and_client_certificates_can_be_of_one_listener(files: dict[str, Any], tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path / "other")
    own = {
        "tls_certificate": (*files["tls_certificate"], f"out={node.certificate}"),
        "tls_key": (*files["tls_key"], f"out={node.key}"),
        "tls_authority": (*files["tls_authority"], f"out={authority}"),
        "client_certificates": ("optional", "out=required"),
    }
    found, _ = plan("in", "out", **own)
    assert found["out"].paths == (node.certificate, node.key, authority)
    assert found["out"].files.client_certificates is ClientCertificates.REQUIRED
    assert found["http"].files.client_certificates is ClientCertificates.OPTIONAL
    only, _ = plan("in", tls_certificate=(f"http={node.certificate}",), tls_key=(f"http={node.key}",))
    assert list(only) == ["http"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls_key": ()}, "the listener http needs both"),
        ({"tls_certificate": ("a.pem", "b.pem")}, "twice for all listeners"),
        ({"tls_certificate": ("http=a", "http=b")}, "twice for http"),
        ({"tls_certificate": ("https=a",)}, "no listener has the name 'https'; the listeners are http, rpc, in"),
        ({"tls_certificate": ("http=",)}, "has no value"),
        ({"plaintext": ("kafka",)}, "--plaintext kafka: no listener has this name"),
        ({"client_certificates": ("maybe",)}, "'maybe' is not none, optional or required"),
        ({"client_certificates": ("in=required",), "tls_certificate": (), "tls_key": ()}, "in=required needs --tls-c"),
        ({"tls_authority": (), "rpc": "127.0.0.1:1"}, "needs --tls-certificate, --tls-key and --tls-authority"),
    ],
)
def test_invalid_options_are_refused(files: dict[str, Any], given: dict[str, Any], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        plan("in", **files | given)


def test_client_certificates_need_an_authority(files: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="need the authority"):
        plan("in", **files | {"tls_authority": (), "client_certificates": ("required",)})


def test_listeners_that_other_machines_reach_need_tls(files: dict[str, Any]) -> None:
    tls = plan(**files)[0]["http"]
    check_reach("--http", "10.0.0.1", tls, insecure=False)
    check_reach("--http", "10.0.0.1", None, insecure=True)
    check_reach("--http", "127.0.0.1", None, insecure=False)
    with pytest.raises(click.UsageError, match=r"other machines can reach --http .*--insecure"):
        check_reach("--http", "10.0.0.1", None, insecure=False)


def test_changed_files_are_read_once_they_are_stable(
    files: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls = plan(**files)[0]["http"]
    reloader = TlsReloader({"http": tls})
    before = tls.context
    reloader.check()
    reloader.check()
    assert caplog.messages == []
    _, renewed, _ = create(tmp_path / "renewed")
    os.replace(renewed.certificate, tls.paths[0])
    reloader.check()
    assert caplog.messages == [], "it waits for the key"
    os.replace(renewed.key, tls.paths[1])
    reloader.check()
    reloader.check()
    assert caplog.messages == ["tls_reloaded"]
    assert caplog.records[0].listener == "http"  # type: ignore[attr-defined]
    assert tls.context is before
    caplog.clear()
    Path(tls.paths[1]).write_text("garbage")
    for _ in range(4):
        reloader.check()
    assert caplog.messages == ["tls_reload_failed"], "one event for each change"
    assert "have to be PEM files" in caplog.records[0].why  # type: ignore[attr-defined]
    Path(tls.paths[1]).unlink()
    reloader.check()
    reloader.check()
    assert caplog.messages == ["tls_reload_failed"] * 2
    reloader.reload_all()
    assert caplog.messages == ["tls_reload_failed"] * 3


def test_a_certificate_that_expires_soon_is_reported_once(
    files: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = plan(**files)[0]["http"]
    reloader = TlsReloader({"http": tls})
    reloader.warn(tls.period.warn_from - timedelta(seconds=1))
    assert caplog.messages == []
    for late in (timedelta(0), timedelta(days=30)):
        reloader.warn(tls.period.warn_from + late)
    assert caplog.messages == ["certificate_expires"]
    (renewed,) = PrivateAuthority(str(tmp_path / "renewed")).issue((1,), days=100)
    os.replace(renewed.key, tls.paths[1])
    os.replace(renewed.certificate, tls.paths[0])
    before = tls.period
    reloader.reload_all()
    assert tls.period.ends < before.ends
    reloader.warn(tls.period.warn_from)
    assert caplog.messages.count("certificate_expires") == 2
