"""Tables of docs/METRICS.md, written from the declarations of the metrics and from the alerts.

`python -m tests.documents.metrics_page --rewrite` writes them; without the flag the exit code is 1 if they differ."""

import re
import sys
from typing import Final

from raftlog.api.http.metrics.declared import DECLARED
from raftlog.cli.monitoring.alerts import ALERTS
from raftlog.cli.monitoring.expressions import CONSUMER_LAG
from tests.documents.pages import ROOT

PAGE: Final = ROOT / "docs" / "METRICS.md"


def metrics_table() -> str:
    """Return the table of metrics: name, type, labels, meaning."""
    rows = [
        f"|`{each.full_name}`|{each.kind}|{', '.join(f'`{label}`' for label in each.labels)}|{each.meaning}|"
        for each in DECLARED.values()
    ]
    return "\n".join(["|metric|type|labels|meaning|", "|---|---|---|---|", *rows])


def alerts_table() -> str:
    """Return the table of alerts: name with a link to the runbook, expression, duration, severity."""
    rows = [
        f"|[{each.name}]({each.runbook})|`{each.expression.replace(CONSUMER_LAG, 'LAG')}`|{each.lasts}|{each.severity}|"
        for each in ALERTS
    ]
    return "\n".join(["|alert, runbook|fires while|for|severity|", "|---|---|---|---|", *rows])


def rewritten(text: str) -> str:
    """Return the page with present tables: the one after each mark, up to the next empty line."""
    for mark, table in (("metrics", metrics_table()), ("alerts", alerts_table())):
        pattern = re.compile(rf"(?<=<!-- {mark} -->\n)(?:\|.*\n)*", re.MULTILINE)
        assert len(pattern.findall(text)) == 1, f"{PAGE.name} has no mark {mark}"
        text = pattern.sub(lambda _, table=table: f"{table}\n", text)
    return text


def main() -> int:
    """Compare or rewrite the page; return the exit code."""
    text = PAGE.read_text(encoding="utf-8")
    new = rewritten(text)
    if sys.argv[1:] == ["--rewrite"]:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    return int(new != text)


if __name__ == "__main__":
    sys.exit(main())
