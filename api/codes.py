"""HTTP status and error code of answers without a `RaftlogError`; `raftlog.values.error_codes` has all others.

raftlog's own codes are 40302 (request of another origin), 40303 (host that is not this broker's) and 40307 (change
by the console, which is read-only)."""

BAD_REQUEST = (400, 40002)
CROSS_ORIGIN = (403, 40302)
"""A request that a web page of another origin made."""
UNKNOWN_HOST = (403, 40303)
"""A name in `Host` that is not one of this broker."""
CONSOLE_READ_ONLY = (403, 40307)
"""A change that a page of the console requested, without `--console-writes`."""
NOT_FOUND = (404, 404)
METHOD_NOT_ALLOWED = (405, 405)
BODY_TOO_SLOW = (408, 40801)
NOT_ACCEPTABLE = (406, 40601)
TOO_LARGE = (413, 413)
WRONG_CONTENT_TYPE = (415, 415)
INVALID_JSON = (422, 42203)
EMPTY_REQUEST = (422, 42208)
INTERNAL = (500, 50002)
UNKNOWN_V3 = (404, 40403)
"""An unknown topic or partition, as the v3 paths call it."""
