"""`oncestream user`: users and their SCRAM passwords."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import user_names
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.password import PasswordFile, ask_password
from oncestream.client.users import ScramMechanism, delete_user, list_users, put_user
from oncestream.errors import UnknownUser, UserExists

app = noun("Users and their passwords.")


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(help="The user's name.", autocompletion=user_names)]
MechanismOption = Annotated[Mechanism, typer.Option(help="How the user logs in.")]


@command(app)
def add(
    call: Call,
    name: Name,
    password_file: PasswordFile = None,
    mechanism: MechanismOption = Mechanism.SHA_512,
) -> None:
    """Make a user; the password comes from a prompt, a file or standard input."""
    if name in list_users(call.cluster):
        raise UserExists(user=name)
    put_user(call.cluster, name, ask_password(password_file), _scram(mechanism))


@command(app)
def passwd(
    call: Call,
    name: Name,
    password_file: PasswordFile = None,
    mechanism: MechanismOption = Mechanism.SHA_512,
) -> None:
    """Give a user another password, for one mechanism."""
    if name not in list_users(call.cluster):
        raise UnknownUser(user=name)
    put_user(call.cluster, name, ask_password(password_file), _scram(mechanism))


@command(app, "list")
def list_(call: Call) -> None:
    """All users, and how each can log in."""
    rows = [
        {"user": user, "mechanism": str(each.mechanism), "iterations": each.iterations}
        for user, credentials in list_users(call.cluster).items()
        for each in credentials
    ]
    call.show(rows, ("user", "mechanism", "iterations"))


@command(app)
def delete(call: Call, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a user; access rights that name it stay."""
    if name not in list_users(call.cluster):
        raise UnknownUser(user=name)
    if may_go_on([f"delete user {name}"], dry_run=dry_run, yes=yes):
        delete_user(call.cluster, name)


def _scram(mechanism: Mechanism) -> ScramMechanism:
    return ScramMechanism[mechanism.replace("-", "_")]
