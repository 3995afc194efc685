"""Page templates in jinja2; all inserted values are escaped, except plots, which are SVG."""

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PLACES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _format_ms(value: float) -> str:
    """Format milliseconds with three digits."""
    return f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def _format_thousands(value: float) -> str:
    """Return a number with thousands separators."""
    return f"{value:,}"


_PLACES.filters |= {"ms": _format_ms, "thousands": _format_thousands}


def render(template: str, **context: Any) -> str:
    """Return the HTML of a template with these variables."""
    return _PLACES.get_template(template).render(**context)
