"""HTTP server: connections, bodies, routes, answers, origins."""
