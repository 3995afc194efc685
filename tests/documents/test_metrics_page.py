"""docs/METRICS.md compared with declarations, and these with a scrape and with Prometheus' conventions."""

import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from raftlog.api.http.metrics.declared import DECLARED
from raftlog.api.http.metrics.metrics import Metrics
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.settings import GossipSettings
from raftlog.partitions.settings import BrokerSettings
from tests.cluster_secret import SECRET
from tests.documents.metrics_page import PAGE, rewritten
from tests.documents.pages import ROOT
from tests.layouts import DOCS
from tests.system_packages import prometheus_program

LOOPBACK = ("127.0.0.1", 0)
USER_PAGES = [ROOT / "README.md", *(path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "adr")]
NOT_METRICS = {"raftlog_cluster", "raftlog_cluster_factory"}
"""Fixtures of pytest."""
PROCESS = set(re.findall(r"`(process_\w+)`", PAGE.read_text(encoding="utf-8")))
SCRAPED_TYPES = {"info": "gauge"}
"""Types that Prometheus' text format writes as another one."""


async def scrape(data_dir: Path) -> str:
    """Return the metrics of a new broker with gossip."""
    settings = BrokerSettings(data_dir=str(data_dir), rpc=LOOPBACK, secret=SECRET, gossip=GossipSettings())
    broker = await Broker.open(settings)
    try:
        await broker.start("127.0.0.1:1")
        text, _ = await Metrics(broker, RequestMetrics(), 1).render()
    finally:
        await broker.close()
    return text.decode()


def test_the_tables_are_the_declared_ones() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run `python -m tests.documents.metrics_page --rewrite`"


async def test_a_scrape_has_exactly_the_declared_metrics(tmp_path: Path) -> None:
    text = await scrape(tmp_path)
    shown = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    declared = {each.full_name: SCRAPED_TYPES.get(each.kind, each.kind) for each in DECLARED.values()}
    assert {name for name in shown if name.startswith("process_")} == PROCESS
    assert {name: kind for name, kind in shown.items() if name not in PROCESS} == declared
    for family in text_string_to_metric_families(text):
        check_labels(family)


def check_labels(family: Metric) -> None:
    for sample in family.samples:
        name = re.sub(r"_(bucket|count|sum)$", "", sample.name).removeprefix("raftlog_")
        labels = set(DECLARED[name].labels) if name in DECLARED else set()
        assert set(sample.labels) - {"le"} == labels, sample


async def test_promtool_finds_no_problem_in_a_scrape(tmp_path: Path) -> None:
    text = await scrape(tmp_path)
    done = subprocess.run(
        [prometheus_program("promtool"), "check", "metrics"], input=text.encode(), capture_output=True, check=False
    )
    findings = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in findings if line.startswith("raftlog_")] == []
    assert done.returncode in (0, 3), findings  # 3: remarks on names, which may be those of the client library
    assert "error" not in " ".join(findings)


@pytest.mark.parametrize("name", DECLARED)
def test_names_end_with_what_they_count_or_their_unit(name: str) -> None:
    declared = DECLARED[name]
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", name)
    assert (declared.kind == "counter") == name.endswith("_total")
    assert (declared.kind == "info") == name.endswith("_info")
    assert not re.search(r"_(ms|us|ns|millis\w*|minutes|hours|kb|mb|kib|mib|percent)(_|$)", name), "no base unit"
    for unit in ("seconds", "bytes", "ratio"):
        if unit in name.split("_"):
            assert name.removesuffix("_total").endswith(f"_{unit}"), "the unit stands at the end"
    assert not set(declared.labels) & {"le", "quantile", "job", "instance", "name", "type"}, "other labels are meant"


def test_metrics_named_in_documents_exist() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in USER_PAGES if page.name != "HTTP.md")
    named = set(re.findall(r"`(raftlog_[a-z_]+)", text)) - NOT_METRICS
    known = {each.full_name for each in DECLARED.values()}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= known
