"""Logins that `raftlog serve` requires, as derived from its flags, and refused combinations."""

from typing import Any

import click
import pytest

from raftlog.cli.serve.authentication_options import AuthenticationPlan, authentication_plan_from
from raftlog.security.bearer import BearerSettings
from raftlog.security.sasl import MECHANISMS

TOKENS = {"oauth_jwks": "/etc/keys.json", "oauth_issuer": "https://issuer", "oauth_audience": "raftlog"}


def plan(*authentication: str, insecure: bool = False, encrypted: Any = (), **given: Any) -> AuthenticationPlan:
    arguments = {
        "authentication": authentication,
        "sasl_mechanisms": (),
        "oauth_jwks": None,
        "oauth_issuer": None,
        "oauth_audience": None,
        "oauth_principal_claim": "sub",
        "other": 1,
    } | given
    tls: Any = dict.fromkeys(encrypted)
    found = authentication_plan_from(arguments, ["kafka", "inside"], tls, insecure=insecure)
    assert arguments == {"other": 1}, "other options are left alone"
    return found


def test_no_listener_requires_logins_by_default() -> None:
    assert plan() == AuthenticationPlan({}, None, is_insecure=False)
    assert plan("none").mechanisms == {}


def test_listeners() -> None:
    assert plan("required").mechanisms == dict.fromkeys(("http", "kafka", "inside"), MECHANISMS)
    assert set(plan("required", "inside=none").mechanisms) == {"http", "kafka"}
    assert set(plan("kafka=required").mechanisms) == {"kafka"}


def test_mechanisms() -> None:
    found = plan("required", sasl_mechanisms=("SCRAM-SHA-512", "http=plain, scram-sha-256")).mechanisms
    assert found == {"http": ("PLAIN", "SCRAM-SHA-256"), "kafka": ("SCRAM-SHA-512",), "inside": ("SCRAM-SHA-512",)}


def test_plain_needs_tls_or_insecure() -> None:
    texts = ("kafka=PLAIN",)
    with pytest.raises(click.UsageError, match="the listener kafka has no TLS"):
        plan("required", sasl_mechanisms=texts)
    assert plan("required", sasl_mechanisms=texts, encrypted=["kafka"]).mechanisms["kafka"] == ("PLAIN",)
    assert plan("required", sasl_mechanisms=texts, insecure=True).mechanisms["kafka"] == ("PLAIN",)


def test_tokens() -> None:
    found = plan("required", **TOKENS, oauth_principal_claim="name")
    assert found.bearer == BearerSettings("/etc/keys.json", "https://issuer", "raftlog", "name")
    with pytest.raises(click.UsageError, match="must be given together"):
        plan("required", **(TOKENS | {"oauth_audience": None}))
    with pytest.raises(click.UsageError, match="https"):
        plan("required", **(TOKENS | {"oauth_jwks": "http://issuer/keys"}))
    with pytest.raises(click.UsageError, match="needs --oauth-jwks"):
        plan("required", sasl_mechanisms=("OAUTHBEARER",))


@pytest.mark.parametrize(
    ("authentication", "mechanisms", "why"),
    [
        (("maybe",), (), "not none or required"),
        (("other=required",), (), "no listener has the name 'other'"),
        (("required", "none"), (), "given twice for all listeners"),
        (("http=required", "http=none"), (), "given twice for http"),
        (("required",), ("GSSAPI",), "the mechanisms are"),
        (("required",), ("http=",), "has no value"),
        (("required",), ("http=,",), "the mechanisms are"),
    ],
)
def test_refused_flags(authentication: Any, mechanisms: Any, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        plan(*authentication, sasl_mechanisms=mechanisms)


def test_listeners_that_other_machines_reach_need_logins() -> None:
    with pytest.raises(click.UsageError, match="without a login: give --authentication http=required"):
        plan("kafka=required").check_reach("--http 0.0.0.0:80", "0.0.0.0", "http", {})
    plan("http=required").check_reach("--http 0.0.0.0:80", "0.0.0.0", "http", {})
    plan(insecure=True).check_reach("--http 0.0.0.0:80", "0.0.0.0", "http", {})
    plan().check_reach("--http 127.0.0.1:80", "127.0.0.1", "http", {})


def test_a_cluster_without_users_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    plan("required").warn_without_users(has_users=True)
    plan().warn_without_users(has_users=False)
    plan("required", **TOKENS).warn_without_users(has_users=False)
    assert not caplog.records
    plan("required").warn_without_users(has_users=False)
    assert "RAFTLOG_BOOTSTRAP_USER" in caplog.text
