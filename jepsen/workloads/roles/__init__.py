"""What one client does at a time, again and again: produce, read, list, commit, be a member of a group.

A role is one process of the history, or several where its operations overlap. `jepsen.workloads.client` calls them.
"""
