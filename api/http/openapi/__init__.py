"""The OpenAPI 3.1 document of everything that is served: parameters, bodies, answers, errors.

Written by hand, as the handlers' parsing is; a test compares it with the router's table, and schemathesis with what a
running broker answers. Only `describing` comes in, when somebody asks for the document.
"""
