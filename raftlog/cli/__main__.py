"""`python -m raftlog.cli`, for an interpreter whose script is not on the path."""

from raftlog.cli.entry import main

if __name__ == "__main__":
    main()
