"""Check of the project's prose: first lines of docstrings and headings of documents."""
