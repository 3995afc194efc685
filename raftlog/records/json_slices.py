"""Checks and splits of large JSON text in slices of a few milliseconds, with little memory in addition to the text.

    check_json     validates JSON text without keeping anything of it
    split_items    returns the spans of the items of a list or an object, in groups

A parser builds objects of up to 35 times the size of their text, and holds the interpreter until it returns. Here the
parser receives pieces of about `SLICE_BYTES`, cut after commas outside of strings. A piece is enclosed in the brackets
that are open at its ends, so that it is JSON exactly if the text is JSON there; strings longer than a slice are checked
separately, in parts. Both functions are generators that yield None at points where other tasks may run
(`raftlog.runtime.slices`). Used for bodies of requests and for stored values."""

import re
from collections.abc import Generator
from typing import Final, TypeAlias

import orjson
import re2

SLICE_BYTES: Final = 32 * 1024
NESTED_MAX: Final = 254
"""Maximum depth of nesting; orjson serializes no more."""
_STRING_SLICE_BYTES: Final = 128 * 1024
_LOOSE_BYTES_MAX: Final = 128 * 1024
"""Maximum number of bytes outside of strings between two commas: white space, a number, brackets."""

Text: TypeAlias = bytes | bytearray
Steps: TypeAlias = Generator[None, None, None]
Span: TypeAlias = tuple[int, int]

_LATIN = re2.Options()
_LATIN.encoding = re2.Options.Encoding.LATIN1
_STRING: Final = rb'"(?:[^"\\]|\\.)*"'
_TO_LAST_COMMA: Final = re2.compile(rb'(?s)(?:(?:[^",]|' + _STRING + rb")*,)*", _LATIN)
_TO_FIRST_COMMA: Final = re2.compile(rb'(?s)(?:[^",]|' + _STRING + rb")*,", _LATIN)
_TO_OPEN_STRING: Final = re2.compile(rb'(?s)(?:[^"]|' + _STRING + rb")*", _LATIN)
_IN_STRING: Final = re2.compile(rb'(?s)(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*', _LATIN)
_LOW_SURROGATE: Final = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_NO_BRACKETS: Final = bytes(code for code in range(256) if code not in b"[]{}")
_CLOSING: Final = {0x5B: b"]", 0x7B: b"}"}
_OPENED_BY: Final = {0x5D: 0x5B, 0x7D: 0x7B}
_QUOTE, _COMMA, _LIST = b'",['
_PASSES_MAX: Final = 4
_TRIES_MAX: Final = 4
_UTF8_BYTES_MAX: Final = 4


def check_json(text: Text, start: int = 0, end: int | None = None) -> Steps:
    """Raise `ValueError` unless the text is one JSON value, nested at most `NESTED_MAX` levels deep."""
    position, prefix, stack = start, b"", b""
    end = len(text) if end is None else end
    while True:
        cut, strings = yield from _find_cut(text, position, end)
        piece = _empty_strings(text, position, cut, strings)
        _, stack = _find_open(stack, piece)
        if cut < end and not stack:
            raise ValueError(f"text follows after its end, at byte {cut}")
        try:
            orjson.loads(prefix + piece + (_make_suffix(stack) if cut < end else b""))
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{error.msg} between bytes {position} and {cut}") from None
        if cut == end:
            return
        position, prefix = cut, _make_prefix(stack)
        yield


def split_items(text: Text, start: int, end: int) -> Generator[Span | None, None, None]:
    """Yield the spans of the items of a list or an object whose text between the brackets is from `start` to `end`.

    A span has items of about `SLICE_BYTES` together, with the commas between them, or one item that is larger. Yields
    None between spans where other tasks may run. The caller checks that the spans are JSON. Raises `ValueError` for
    brackets that do not match, and for a comma at the end."""
    position = at = start
    stack = b""
    """Brackets that are open at `at`: empty, unless an item larger than a slice has begun at `position`."""
    while True:
        cut, strings = yield from _find_cut(text, at, end)
        left, after = _find_open(stack, _empty_strings(text, at, cut, strings))
        boundary = -1
        if not after and not stack:
            boundary = cut - 1 if cut < end else -1
        elif stack and not left:
            boundary = _find_first_comma(text, at, cut, len(stack))
        elif not stack and cut < end and not strings:
            boundary = _find_last_comma(text, at, cut)
        if boundary >= 0:
            yield position, boundary
            position = at = boundary + 1
            stack = b""
        elif cut == end:
            if position > start and not text[position:end].strip():
                raise ValueError("it ends with a comma")
            yield position, end
            return
        else:
            at, stack = cut, after
            yield None


def _find_cut(text: Text, at: int, end: int) -> Generator[None, None, tuple[int, list[Span]]]:
    """Return the position of a cut, and the spans of the strings before it that are longer than a slice.

    The cut is after a comma outside of strings, about a slice after `at`, or at `end`. The returned strings are
    checked. Yields between slices. Raises `ValueError`."""
    strings: list[Span] = []
    loose = 0
    while True:
        window = text[at : min(at + SLICE_BYTES, end)]
        is_last = at + SLICE_BYTES >= end
        if strings:
            found = _TO_FIRST_COMMA.match(window)
        elif is_last:
            return end, strings
        else:
            found = _TO_LAST_COMMA.match(window)
        if found is not None and found.end():
            return at + found.end(), strings
        if is_last:
            return end, strings
        quiet = _TO_OPEN_STRING.match(window).end()
        at += quiet
        loose += quiet
        if loose > _LOOSE_BYTES_MAX:
            raise ValueError(f"more than {_LOOSE_BYTES_MAX} bytes without a comma or string before byte {at}")
        if quiet < len(window):
            after = yield from _check_string(text, at, end)
            strings.append((at, after))
            at = after
        yield


def _check_string(text: Text, quote: int, end: int) -> Generator[None, None, int]:
    """Check the string that begins at `quote`; return the position after it. Raises `ValueError`."""
    at = quote + 1
    while True:
        size: int = _IN_STRING.match(text[at : min(at + _STRING_SLICE_BYTES, end)]).end()
        if at + size < end:
            for _ in range(_UTF8_BYTES_MAX):
                size -= size > 0 and text[at + size] & 0xC0 == 0x80  # inside a character
            if low := _LOW_SURROGATE.match(text, at + size, end):  # its other half may be in this piece
                size = low.end() - at
        try:
            orjson.loads(b'"' + text[at : at + size] + b'"')
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{error.msg} in the string at byte {quote}") from None
        at += size
        if at < end and text[at] == _QUOTE:
            return at + 1
        if not size or at >= end:
            raise ValueError(f"the string at byte {quote} is not terminated, or has an invalid escape")
        yield


def _empty_strings(text: Text, start: int, end: int, strings: list[Span]) -> Text:
    """Return the text with empty strings in place of `strings`."""
    if not strings:
        return text[start:end]
    parts: list[Text] = []
    for opening, after in strings:
        parts += text[start : opening + 1], b'"'
        start = after
    return b"".join((*parts, text[start:end]))


def _find_brackets(piece: Text) -> Text | None:
    """Return the brackets outside of strings; None if the piece ends inside a string."""
    if b"\\" in piece:
        piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
    parts = piece.split(b'"')
    if len(parts) % 2 == 0:
        return None
    return b"".join(parts[::2]).translate(None, _NO_BRACKETS)


def _find_open(stack: bytes, piece: Text) -> tuple[int, bytes]:
    """Return how many brackets of `stack` stay open throughout the piece, and all brackets that are open after it.

    Raises `ValueError`."""
    brackets = _find_brackets(piece) or b""
    for _ in range(_PASSES_MAX):
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) == size:
            break
    opened = bytearray(stack)
    left = len(opened)
    for bracket in brackets:
        if bracket in _CLOSING:
            opened.append(bracket)
        elif not opened or opened.pop() != _OPENED_BY[bracket]:
            raise ValueError("its brackets do not match")
        left = min(left, len(opened))
        if len(opened) > NESTED_MAX:
            raise ValueError(f"it is nested deeper than {NESTED_MAX} levels")
    return left, bytes(opened)


def _find_first_comma(text: Text, start: int, end: int, depth: int) -> int:
    """Return the position of the first comma outside of all brackets; −1 if there is none.

    `depth` brackets are open at `start`."""
    for token in _TOKEN.finditer(text, start, end):
        code = text[token.start()]
        if code in _CLOSING:
            depth += 1
        elif code in _OPENED_BY:
            depth -= 1
        elif code == _COMMA and not depth:
            return token.start()
    return -1


def _find_last_comma(text: Text, start: int, end: int) -> int:
    """Return the position of the last comma outside of all brackets; −1 if there is none.

    A comma after an object is found without a walk over the tokens."""
    at = end
    for _ in range(_TRIES_MAX):
        at = text.rfind(b"}", start, at)
        if at < 0:
            break
        comma = text.find(b",", at, end)
        if comma < 0 or text[at + 1 : comma].strip():
            continue
        brackets = _find_brackets(text[start : at + 1])
        if (
            brackets is not None
            and len(brackets) % 2 == 0
            and brackets.count(b"}") + brackets.count(b"]") == (len(brackets) // 2)
        ):
            return comma
    depth, last = 0, -1
    for token in _TOKEN.finditer(text, start, end):
        code = text[token.start()]
        if code in _CLOSING:
            depth += 1
        elif code in _OPENED_BY:
            depth -= 1
        elif code == _COMMA and not depth:
            last = token.start()
    return last


def _make_prefix(stack: bytes) -> bytes:
    """Return the text that opens the brackets of a piece that begins after a comma."""
    *outer, inner = stack
    opened = b"".join(b"[" if bracket == _LIST else b'{"":' for bracket in outer)
    return opened + (b"[0," if inner == _LIST else b'{"":0,')


def _make_suffix(stack: bytes) -> bytes:
    """Return the text that closes the brackets of a piece that ends with a comma."""
    closed = b"".join(_CLOSING[bracket] for bracket in reversed(stack))
    return (b"0" if stack[-1] == _LIST else b'"":0') + closed
