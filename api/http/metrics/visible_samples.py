"""Metrics without the samples of topics and consumer groups that their reader may not describe."""

import asyncio
import re
from typing import Final

from raftlog.api.http.server.permissions import Visibility

_LABEL: Final = re.compile(rb'[{,](topic|group)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(rb"\\(.)")
_SLICE: Final = 500
"""Lines that are filtered in one turn of the event loop."""


async def visible_samples(text: bytes, visible: Visibility) -> bytes:
    """Return the text of all metrics without the lines whose labels name a hidden topic or group."""
    known: dict[tuple[bytes, bytes], bool] = {}
    shown = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if all(_is_visible(label, visible, known) for label in _LABEL.findall(line)):
            shown.append(line)
        if number % _SLICE == 0:
            await asyncio.sleep(0)
    return b"".join(shown)


def _is_visible(label: tuple[bytes, bytes], visible: Visibility, known: dict[tuple[bytes, bytes], bool]) -> bool:
    """Return whether the caller may see the topic or group in a label; `known` has earlier results."""
    found = known.get(label)
    if found is None:
        name = _ESCAPED.sub(lambda match: b"\n" if match[1] == b"n" else match[1], label[1]).decode()
        found = known[label] = visible.has_topic(name) if label[0] == b"topic" else visible.has_group(name)
    return found
