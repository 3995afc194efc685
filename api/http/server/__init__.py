"""HTTP itself: connections, bodies, routes, answers, origins."""
