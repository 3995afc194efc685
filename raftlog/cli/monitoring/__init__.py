"""`raftlog generate`: scrape configuration, alerts and dashboards, for Prometheus and Grafana."""
