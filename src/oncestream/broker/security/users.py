"""Users and their credentials, which live in the catalogue: only salted hashes, never a password."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from oncestream.broker.catalog import (
    Catalog,
    Change,
    UserKey,
    put_user,
    set_login_secret,
)
from oncestream.broker.clock import Clock
from oncestream.broker.security.scram import (
    ITERATIONS,
    SALT_BYTES,
    Credential,
    Mechanism,
    credential_of,
    salted_password,
)
from oncestream.errors import BadUser
from oncestream.storage.folder import DataFolder

ALL_MECHANISMS: Final = tuple(Mechanism)
_SECRET_BYTES: Final = 32
_PRIVATE: Final = 0o700


def add_user_offline(
    data: Path, name: str, password: str, mechanisms: Iterable[Mechanism] = ALL_MECHANISMS
) -> None:
    """Writes a user into the data folder of a broker that does not run; one of that name gets the new password."""
    if not name:
        raise BadUser(name=name, reason="the name is empty")
    if not password:
        raise BadUser(name=name, reason="the password is empty")
    chosen = tuple(mechanisms)
    if not chosen:
        raise BadUser(name=name, reason="it has no mechanism to log in by")
    clock = Clock()
    folder = DataFolder.open(data, clock_ms=clock.now_ms)
    try:
        catalog = Catalog.open(folder)
        credentials = [hash_password(mechanism, password) for mechanism in chosen]
        commit_users(catalog, [put_user(name, each) for each in credentials], clock.now_ms())
    except BaseException:
        folder.abandon()
        raise
    folder.close()


def hash_password(mechanism: Mechanism, password: str, iterations: int = ITERATIONS) -> Credential:
    salt = secrets.token_bytes(SALT_BYTES)
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def commit_users(catalog: Catalog, changes: list[Change], now_ms: int) -> None:
    """Hashes of weak passwords can be guessed: from now on only the broker's own account reads the catalogue."""
    catalog.log.folder.chmod(_PRIVATE)
    catalog.commit(changes, now_ms)


def ensure_login_secret(catalog: Catalog, now_ms: int) -> None:
    if not catalog.login_secret:
        commit_users(catalog, [set_login_secret(secrets.token_bytes(_SECRET_BYTES))], now_ms)


def credential_for(catalog: Catalog, name: str, mechanism: Mechanism) -> Credential:
    """The user's; for one who does not exist, one that fits no password and looks like the others each time.

    So a log-in does not tell which users there are.
    """
    found = catalog.users.get(UserKey(name, mechanism))
    if found is not None:
        return found
    shapes = Counter((len(c.salt), c.iterations) for c in catalog.users.values() if c.mechanism is mechanism)
    salt_bytes, iterations = shapes.most_common(1)[0][0] if shapes else (SALT_BYTES, ITERATIONS)
    salt = hmac.digest(catalog.login_secret, f"{mechanism.name}:{name}".encode(), "sha512")[:salt_bytes]
    return credential_of(mechanism, secrets.token_bytes(_SECRET_BYTES), salt, iterations)


def plain_credential_for(catalog: Catalog, name: str) -> Credential:
    """What a password in plain text is checked against: the user's strongest credential."""
    weaker = UserKey(name, Mechanism.SCRAM_SHA_256)
    if weaker in catalog.users and UserKey(name, Mechanism.SCRAM_SHA_512) not in catalog.users:
        return catalog.users[weaker]
    return credential_for(catalog, name, Mechanism.SCRAM_SHA_512)
