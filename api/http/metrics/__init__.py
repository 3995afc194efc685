"""`GET /metrics`: one module for each family of metrics."""
