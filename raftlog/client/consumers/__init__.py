"""`Consumer`: assignment, fetching, records handed out, commits, the session in a consumer group; `HandlerLoop`."""
