"""Values that cross layers, each declared once: results of operations, bodies over HTTP, values of the client.

A declaration is a `msgspec.Struct`. Its JSON, the check of what arrives and its schema in the OpenAPI document are
derived from it by code. Brokers and clients import this room; it imports nothing of either.
"""
