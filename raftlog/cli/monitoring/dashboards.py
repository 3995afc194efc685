"""Dashboards for Grafana, as the JSON that Grafana imports."""

from typing import Any, Final, NamedTuple

from raftlog.cli.monitoring.panels import BROKER, GROUP, OVERVIEW, RAFT, TOPIC, Panel

_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 7
"""Layout of panels; Grafana's grid has 24 columns."""
_TAG: Final = "raftlog"


class Variable(NamedTuple):
    """Variable of a dashboard: the values of the label `name` of a metric."""

    name: str
    metric: str


class Dashboard(NamedTuple):
    """Grafana dashboard; its panels are placed from left to right and top to bottom."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


DASHBOARDS: Final = (
    Dashboard("overview", "raftlog: overview", (), OVERVIEW),
    Dashboard("topic", "raftlog: topic", (Variable("topic", "raftlog_topic_replicas"),), TOPIC),
    Dashboard(
        "group", "raftlog: consumer group", (Variable("group", "raftlog_consumer_group_committed_offset"),), GROUP
    ),
    Dashboard("broker", "raftlog: broker", (Variable("instance", "raftlog_build_info"),), BROKER),
    Dashboard("raft", "raftlog: Raft groups", (), RAFT),
)


def make_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """Return Grafana's JSON of a dashboard, whose viewer chooses the Prometheus to use."""
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    variables = [_make_variable(variable) for variable in dashboard.variables]
    return {
        "title": dashboard.title,
        "uid": f"{_TAG}-{dashboard.name}",
        "tags": [_TAG],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "links": [{"type": "dashboards", "title": _TAG, "tags": [_TAG], "asDropdown": True, "keepTime": True}],
        "panels": [_make_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _make_variable(variable: Variable) -> dict[str, Any]:
    """Return the Grafana variable whose values are those of a label."""
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({variable.metric}, {variable.name})",
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


def _make_panel(number: int, panel: Panel) -> dict[str, Any]:
    """Return the Grafana panel with this number."""
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": panel.expression, "legendFormat": panel.legend}],
    }
