"""Protection of listeners in health: insecure ones, and certificates that expire soon or have expired."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from raftlog.partitions.security.listener_security import ListenerSecurities, ListenerSecurity
from raftlog.security.tls_files import CertificatePeriod

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


class Issued(NamedTuple):
    """Certificate with a period."""

    period: CertificatePeriod


def listeners(days: float, left: timedelta, *lacks: str) -> ListenerSecurities:
    """Return one listener, whose certificate is valid for some days, with a time left of it."""
    found = ListenerSecurities(lambda: int(NOW.timestamp() * 1000))
    ends = NOW + left
    issued = Issued(CertificatePeriod(ends - days * DAY, ends))
    found.all = [ListenerSecurity("http", "10.0.0.1:8082", lacks, issued), ListenerSecurity("kafka", "h:1", (), None)]
    return found


@pytest.mark.parametrize(
    ("days", "left", "is_noted"),
    [(800, 15 * DAY, False), (800, 13 * DAY, True), (1, DAY / 4, False), (1, DAY / 6, True), (800, -DAY, False)],
)
def test_a_certificate_that_expires_soon_is_noted(days: float, left: timedelta, is_noted: bool) -> None:
    found = listeners(days, left)
    assert bool(found.notes()) is is_noted
    if is_noted:
        ends = f"{NOW + left:%Y-%m-%d %H:%M} UTC"
        assert found.notes() == [f"the certificate of the listener http expires on {ends}; renew it"]
    assert bool(found.problems()) is (left < timedelta(0))
    assert found.expiry_times_s() == [("http", (NOW + left).timestamp())]


def test_insecure_listeners_are_noted() -> None:
    assert listeners(800, 100 * DAY, "TLS", "logins").notes() == [
        "other machines can reach the listener http at 10.0.0.1:8082 without TLS and logins (--insecure)"
    ]
