"""Consumer instances over HTTP, as in Confluent's REST Proxy."""
