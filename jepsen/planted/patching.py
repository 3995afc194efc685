"""How bugs are put into the product: a function of a class or module is replaced for the rest of the process."""


def replace_method(owner: object, name: str, function: object) -> None:
    """Raises `AttributeError` when the product has no such function any more: then the bug has to be written anew."""
    getattr(owner, name)
    setattr(owner, name, function)
