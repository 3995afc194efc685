"""Rules for a first line or a heading: no relative clause in place of a noun, no personification, the field's words."""

import re
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """Pattern that a line must not contain, and the correction to make."""

    pattern: re.Pattern[str]
    advice: str


def _rule(pattern: str, advice: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), advice)


RULES: Final = (
    _rule(
        r"^(what|who|whoever|whom|whose|whatever|whichever|wherever|whenever|why)\b"
        r"|^how (far|much|many|long|often|large|old)\b",
        "begin with the noun itself, not with a relative clause",
    ),
    _rule(
        r"^where\b.*\b(is|are|was|were|stands?|begins?|ends?|goes)\b",
        "begin with the noun: position, address, offset …",
    ),
    _rule(r"^(that|those|one|ones|it|they|these) (which|who|that|whose|of|with|for|in|on|at|from)\b", "name the thing"),
    _rule(r"\b(whoever|whom|nobody|somebody|anybody|everybody|no one|someone|anyone|everyone)\b", "name the component"),
    _rule(r"\b(he|she|him|his|hers?)\b", "a component is `it`"),
    _rule(r"\b(tell|tells|told|telling)\b", "use report, return, send or announce"),
    _rule(r"\b(believes?|believed|mercy|afraid|sorry)\b", "components do not feel or believe"),
    _rule(r"\bput(s|ting)? right\b|\b(mend|mends|mended|mending)\b", "use repair or correct"),
    _rule(r"\b(lets?|letting) go\b", "use delete, remove, release or close"),
    _rule(r"\b(comes?|came|coming) again\b", "use retry or return"),
    _rule(r"\b(is|are|was|were) gone\b", "use deleted, closed, failed or missing"),
    _rule(r"\bkeep(s|ing)? house\b|\bhousekeeping\b", "use maintenance"),
    _rule(r"\bbedtime\b|\blullab(y|ies)\b|\basleep\b|\bfalls? asleep\b", "use quiesced, quiescence"),
    _rule(r"\bheirs?\b", "use transfer target"),
    _rule(r"\brefuge\b|\bsurroundings\b", "use fallback, environment"),
    _rule(r"\bcondemned\b", "use detected"),
    _rule(r"\b(reluctant|reluctance)\b", "use draining"),
    _rule(r"\bmake[sn]? use of\b|\bmade use of\b", "use `use` or `call`"),
    _rule(r"\bgroup 0\b|\bmetadata host\b", "use controller"),
)


_FUNCTION_RULE: Final = _rule(
    r"^(the|an?|of|one|every|everything|when|that|all|its|those|these|both|none?|not|it|once|as|at|after|before|between|in"
    r"|on|from|for|by|to|with|without|while|if|whether|where|there|this|two|such|some|any|each|only|also|same|nothing"
    r"|another|others?|more|most|than|until|then|now|here|so|is|are|has|their|they|about|above|below|beside|amid|among"
    r"|around|behind|over|again|never|mostly|no|how|many|several|single|first|known|held|shown|sorted|answered|position"
    r"|offset|status|path|index|node|million|two|three|four|ten|html|json|cpu|sig[a-z]+)\b|^…"
    r"|^(?!access|address|compress|cross|decompress|discuss|express|guess|miss|pass|press|process)[a-z]+s\b",
    "begin with an imperative verb: Return, Wait until, Append …",
)
_PRODUCT_RULES: Final = (
    _rule(r"\bwhat\b", "name the thing, without a relative clause"),
    _rule(r"\bneed not (stay|be) so\b|\bis so\b|\bstands? still\b", "say it directly"),
)
"""Rules for lines of the product, its fault tests and its documents; not for `tests/`."""
_NOUN_RULE: Final = _rule(
    r"^(of|when|everything|nothing|how|not|once|as|after|before|while|if|only|to|is|has|they|it|where|until|so|here|there"
    r"|then)\b",
    "begin with a noun",
)


def problem_of(line: str, *, is_function: bool = False, is_product: bool = False) -> str | None:
    """Return the advice of the first rule that the line breaks; None when it breaks none.

    Code between backticks is not read. The docstring of a function begins with an imperative verb.
    """
    text = re.sub(r"`[^`]*`", "…", line).strip()
    rules = [*RULES, _FUNCTION_RULE if is_function else _NOUN_RULE]
    if is_product:
        rules += _PRODUCT_RULES
    for rule in rules:
        if rule.pattern.search(text):
            return rule.advice
    return None
