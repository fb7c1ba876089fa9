"""`oncestream quota`: how many bytes a second a user or a client id may send and fetch."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from oncestream.cli.command import Call, command, noun
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.client.quotas import (
    CONSUMER_BYTE_RATE,
    EVERYONE_ELSE,
    PRODUCER_BYTE_RATE,
    QuotaOf,
    alter_quotas,
    describe_quotas,
)
from oncestream.errors import BadArgument, NoSuchQuota

COLUMNS: Final = ("user", "client_id", "quota", "value")
DEFAULT: Final = "default"

app = noun("Limits of bytes per second, by user or client id.")

User = Annotated[str | None, typer.Option(help="User name; `default`: all that have none of their own.")]
ClientId = Annotated[str | None, typer.Option(help="Client id; `default`: all that have none of their own.")]


@command(app, "set")
def set_(
    call: Call,
    user: User = None,
    client_id: ClientId = None,
    produce: Annotated[int | None, typer.Option(min=1, help="Bytes per second that may be sent.")] = None,
    consume: Annotated[int | None, typer.Option(min=1, help="Bytes per second that may be fetched.")] = None,
) -> None:
    """Limit a user, a client id, or a client id of a user."""
    wanted = {PRODUCER_BYTE_RATE: produce, CONSUMER_BYTE_RATE: consume}
    values = {name: value for name, value in wanted.items() if value is not None}
    if not values:
        raise BadArgument(name="quota set", reason="neither --produce nor --consume is given")
    whose = _whose(user, client_id)
    alter_quotas(call.cluster, {whose: values})


@command(app, "list")
def list_(call: Call, user: User = None, client_id: ClientId = None) -> None:
    """All quotas, or those that name this user or client id."""
    rows = [
        {
            "user": _shown(whose.user),
            "client_id": _shown(whose.client_id),
            "ip": _shown(whose.ip),
            "quota": name,
            "value": int(value) if value.is_integer() else value,
        }
        for whose, values in describe_quotas(call.cluster, QuotaOf(_named(user), _named(client_id))).items()
        for name, value in sorted(values.items())
    ]
    call.show(rows, COLUMNS)


@command(app)
def delete(
    call: Call, user: User = None, client_id: ClientId = None, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Take the limits of a user or client id away."""
    whose = _whose(user, client_id)
    values = describe_quotas(call.cluster, whose).get(whose)
    if not values:
        raise NoSuchQuota(
            whose=", ".join(f"{kind} {name or DEFAULT}" for kind, name in whose.parts().items())
        )
    plan = [f"remove {name}={value:g}" for name, value in sorted(values.items())]
    if may_go_on(plan, dry_run=dry_run, yes=yes):
        alter_quotas(call.cluster, {whose: dict.fromkeys(values)})


def _whose(user: str | None, client_id: str | None) -> QuotaOf:
    if user is None and client_id is None:
        raise BadArgument(name="quota", reason="neither --user nor --client-id is given")
    return QuotaOf(_named(user), _named(client_id))


def _named(text: str | None) -> str | None:
    return EVERYONE_ELSE if text == DEFAULT else text


def _shown(name: str | None) -> str | None:
    return DEFAULT if name == EVERYONE_ELSE else name
