"""The OpenAPI 3.1 document of everything that is served: parameters, bodies, answers, errors.

`topics` to `operators` are tables with a row for each operation; `operation` derives parameters, bodies and answers
from a row, and `derived` the schemas from declared values and bodies of requests. A test compares the document with the
router's table, and schemathesis with the answers of a running broker. Only `entry_points` imports this, at the first
request for the document.
"""
