"""Tables of docs/FORMATS.md as decoders: each `<!-- layout: name -->` stands before a table of positions and types."""

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


def code_of(kind: str) -> str:
    """Return the `struct` code for a type of the document; `bytes4` is four bytes."""
    return CODES[kind] if kind in CODES else kind.removeprefix("bytes") + "s"


class Field(NamedTuple):
    position: int
    kind: str
    name: str


class Layout:
    """A table of the document, usable as a decoder."""

    def __init__(self, fields: list[Field]) -> None:
        self.fields = fields
        self._struct = struct.Struct(">" + "".join(code_of(field.kind) for field in fields))
        self.size = self._struct.size

    def decode(self, data: bytes | memoryview, position: int = 0) -> dict[str, Any]:
        values = self._struct.unpack_from(data, position)
        return {
            field.name: uuid.UUID(bytes=value) if field.kind == "uuid" else value
            for field, value in zip(self.fields, values, strict=True)
        }


def table_after(mark: str, document: str = DOCUMENT) -> list[list[str]]:
    """Return the cells of the table behind a mark, without its head."""
    lines = document.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def items_after(mark: str, document: str = DOCUMENT) -> list[tuple[str, str]]:
    """Return the items of the list behind a mark, each cut at its first colon outside of code."""
    text = document.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0]
    items = [" ".join(item.split()) for item in f"\n{text}".split("\n- ")[1:]]
    found = [re.fullmatch(r"((?:`[^`]*`|[^`])*?)(?:: (.*))?", item) for item in items]
    return [(match[1], match[2] or "") for match in found if match]


def layout(name: str) -> Layout:
    return Layout([Field(int(cells[0]), cells[1], cells[2]) for cells in table_after(f"layout: {name}")])
