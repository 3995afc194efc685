"""Report of a run, or of a suite of runs, as one HTML page that opens from disk.

`write_page` is all that others need. Drawing takes matplotlib and jinja2, which only the extra `dev` installs; they are
imported when a page is written, so a run without them still ends with its verdict.

    series (one pass over the history) → plots (inline SVG) ┐
    findings, folder (results.json, timeline.json, logs/)   ┴→ page (run.html) · overview (suite.html)
"""

from jepsen.report.page_request import INDEX, write_page

__all__ = ["INDEX", "write_page"]
