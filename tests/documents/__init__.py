"""Documents against the tree: links, commands that run as printed, tables that name what the code has."""
