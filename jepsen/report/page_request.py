"""Entry point for pages: checks the requirements, and chooses the kind of page by the files."""

import importlib
import importlib.util
import threading
from pathlib import Path
from typing import Final

INDEX: Final = "index.html"
SUITE: Final = "suite.json"
_NEEDED: Final = ("jinja2", "matplotlib", "numpy")
_DRAWING: Final = threading.Lock()
"""Lock of matplotlib's global settings; one page is drawn at a time."""


def write_page(folder: Path) -> str | None:
    """Write `index.html` into the folder of a run or suite; return None, or an error if packages are missing.

    Raises `OSError`, and `InvalidArgument` when the folder holds something else.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"the page of the run needs {', '.join(missing)}: pip install 'raftlog[dev]'"
    drawer = "jepsen.report.overview" if (folder / SUITE).exists() else "jepsen.report.page"
    with _DRAWING:
        html: str = importlib.import_module(drawer).page_of(folder)
    (folder / INDEX).write_text(html, encoding="utf-8")
    return None
