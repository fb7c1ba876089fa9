"""Permission expressions: `u:alice|u:bob`, `p` for everyone, nothing for nobody. Pure."""

from __future__ import annotations

from typing import Final

from oncestream.errors import BadStreamAttribute

EVERYONE: Final = "p"
ANYBODY: Final = "User:*"  # the principal that stands for all
USER: Final = "u:"
OTHER_SIGNS: Final = frozenset("&!()")  # of MapR's expressions; better refused than taken for part of a name


def principals_of(expression: str) -> tuple[str, ...]:
    """The principals, as access rules name them, of an expression that was checked before."""
    if expression == EVERYONE:
        return (ANYBODY,)
    return tuple(sorted({f"User:{name}" for name in _users(expression)}))


def check_expression(name: str, expression: object) -> None:
    """BadStreamAttribute where permission `name` cannot be this."""
    if not isinstance(expression, str):
        raise BadStreamAttribute(name=name, value=expression, reason="it is no text")
    if expression in ("", EVERYONE):
        return
    for part in expression.split("|"):
        user = part.strip().removeprefix(USER)
        if not part.strip().startswith(USER) or not user or OTHER_SIGNS & set(user):
            reason = (
                f"{part.strip()!r} is neither u:<user> nor, alone, p; groups, '&', '!' and () are not known"
            )
            raise BadStreamAttribute(name=name, value=expression, reason=reason)
        if user == "*":
            raise BadStreamAttribute(name=name, value=expression, reason="everyone is p")
        if not user.isprintable():
            raise BadStreamAttribute(name=name, value=expression, reason="a user's name cannot be printed")


def of_user(name: str) -> str:
    return USER + name


def _users(expression: str) -> list[str]:
    return [part.strip().removeprefix(USER) for part in expression.split("|") if part.strip()]
