"""Consumer instances over HTTP, as in the REST Proxy."""
