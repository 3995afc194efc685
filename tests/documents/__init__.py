"""Documents compared with the tree: links, commands that run as printed, tables that name parts of the code."""
