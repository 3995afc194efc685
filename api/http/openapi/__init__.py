"""OpenAPI 3.1 document of all served paths: parameters, bodies, answers, errors.

Handlers declare their endpoints (`server.endpoint`); `operation` derives parameters, bodies and answers from them, and
`derived` the schemas from declared values and bodies of requests. A test compares the document with the router's
endpoints, and schemathesis with the answers of a running broker. Only `entry_points` imports `document`, at the first
request for it.
"""
