"""What clients do while faults happen: each workload is a package with a process that clients run."""
