"""Repeated activities of one client: produce, read, list, commit, be a group member.

A role is one process of the history, or several if its operations overlap. `jepsen.workloads.client` calls them."""
