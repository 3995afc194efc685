"""Replacement of a function of a class or module for the rest of the process, which plants a bug in the product."""


def replace_method(owner: object, name: str, function: object) -> None:
    """Replace a function of the product.

    Raises `AttributeError` if the owner has no such function: then the bug must be rewritten."""
    getattr(owner, name)
    setattr(owner, name, function)
