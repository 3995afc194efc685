"""`python -m raftlog.cli`, for whoever has the interpreter but not the script."""

from raftlog.cli.entry import main

if __name__ == "__main__":
    main()
