"""The project's own figures: what raftlog costs, measured on the machine it runs on.

`python -m bench` runs every measure three times and reports the median next to what is required. It is a program, not
part of the installed package: it starts real broker processes, talks to them over HTTP, loads them with `wrk`, and
checks afterwards on disk that what was counted is there. `bench/README.md` explains every figure.
"""
