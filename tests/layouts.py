"""Layouts of docs/FORMATS.md as decoders: after each `<!-- layout: name -->` comes a list of positions and types."""

import re
import struct
import uuid
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent.parent / "docs"
DOCUMENT = (DOCS / "FORMATS.md").read_text(encoding="utf-8")
LAYOUTS = re.findall(r"<!-- layout: (.+) -->", DOCUMENT)
CODES = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "uuid": "16s",
}


def struct_code(kind: str) -> str:
    """Return the `struct` code for a type of the document; `bytes4` is four bytes."""
    return CODES[kind] if kind in CODES else kind.removeprefix("bytes") + "s"


class Field(NamedTuple):
    """Field of a layout with its position and type."""

    position: int
    kind: str
    name: str


class Layout:
    """Table of the document that decodes bytes."""

    def __init__(self, fields: list[Field]) -> None:
        self.fields = fields
        self._struct = struct.Struct(">" + "".join(struct_code(field.kind) for field in fields))
        self.size = self._struct.size

    def decode(self, data: bytes | memoryview, position: int = 0) -> dict[str, Any]:
        """Return the values of all fields at this position by name."""
        values = self._struct.unpack_from(data, position)
        return {
            field.name: uuid.UUID(bytes=value) if field.kind == "uuid" else value
            for field, value in zip(self.fields, values, strict=True)
        }


def table_after(mark: str, document: str = DOCUMENT) -> list[list[str]]:
    """Return the cells of the table after a mark, without its head.

    A list counts as a table: the words of an item before its first colon, and the text after it, are the cells.
    """
    lines = document.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0].splitlines()
    if lines[0].startswith("- "):
        return [[*head.split(), text] for head, text in items_after(mark, document)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def items_after(mark: str, document: str = DOCUMENT) -> list[tuple[str, str]]:
    """Return the items of the list behind a mark, each cut at its first colon outside of code."""
    text = document.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0]
    items = [" ".join(item.split()) for item in f"\n{text}".split("\n- ")[1:]]
    found = [re.fullmatch(r"((?:`[^`]*`|[^`])*?)(?:: (.*))?", item) for item in items]
    return [(match[1], match[2] or "") for match in found if match]


def read_layout(name: str) -> Layout:
    """Return the list of docs/FORMATS.md with this name as a decoder; an item begins with position, type and field."""
    heads = [head.split(" ", 2) for head, _ in items_after(f"layout: {name}")]
    return Layout([Field(int(position), kind, field) for position, kind, field in heads])
