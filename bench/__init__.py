"""Benchmarks of raftlog, measured on the machine that they run on.

`python -m bench` runs every measure three times and reports the median next to its requirement. It is a program, not
part of the installed package: it starts real broker processes, sends requests over HTTP, loads them with `wrk`, and
checks afterwards on disk that all counted records are there. `bench/README.md` explains every figure."""
