"""Which cluster a command talks to, and how: options, then the environment, then the profile in use."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from oncestream.cli.profiles import load_profiles
from oncestream.client.settings import BOOTSTRAP_DEFAULT, BOOTSTRAP_VARIABLE, ClientSettings
from oncestream.errors import BadSetting

if TYPE_CHECKING:
    from oncestream.messaging.settings import Access

PROFILE_VARIABLE: Final = "ONCESTREAM_PROFILE"
TIMEOUT_MS: Final = 20_000  # a person waits


class Chosen(NamedTuple):
    """Bootstrap servers, and settings by their Kafka names."""

    servers: str
    options: Mapping[str, str]

    def settings(self) -> ClientSettings:
        return ClientSettings.of(self.servers, self.options)


def chosen_cluster(
    bootstrap: str | None,
    profile: str | None,
    command_config: Path | None,
    *,
    timeout_ms: int | None = TIMEOUT_MS,
) -> Chosen:
    """A profile's login goes only to its own cluster, or where the profile was named together with an address."""
    own = read_properties(command_config) if command_config else {}
    address = bootstrap or own.pop("bootstrap.servers", None)
    settings: dict[str, str] = {}
    if profile is not None or address is None:
        name = profile or os.environ.get(PROFILE_VARIABLE)
        address = address or (None if profile else os.environ.get(BOOTSTRAP_VARIABLE))
        if name is not None or address is None:
            settings = load_profiles().settings_of(name)
            of_profile = settings.pop("bootstrap.servers", None)
            address = address or of_profile
    limits = () if timeout_ms is None else ("default.api.timeout.ms", "request.timeout.ms")
    timeouts = dict.fromkeys(limits, str(timeout_ms))
    return Chosen(address or BOOTSTRAP_DEFAULT, {**timeouts, **settings, **own})


def read_properties(path: Path) -> dict[str, str]:
    """A file of Java's kind: name=value lines, comments after # or !, a backslash joins the next line."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            name="--command-config", origin=str(path), reason=f"cannot read it: {error}"
        ) from None
    found: dict[str, str] = {}
    for line in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise BadSetting(name=stripped, origin=str(path), reason="it is not name=value")
        found[name.strip()] = value.strip()
    return found


def access_to(settings: ClientSettings) -> Access:
    """The same cluster and login for confluent-kafka."""
    from oncestream.messaging.settings import Access

    # What goes wrong is told once, by the command: librdkafka repeats it with every new connection.
    logging.getLogger("oncestream").addHandler(logging.NullHandler())
    told: dict[str, str | None] = {
        "security.protocol": settings.security_protocol,
        "client.id": settings.client_id,
    }
    if settings.uses_sasl:
        told |= {
            "sasl.mechanism": settings.sasl_mechanism,
            "sasl.username": settings.sasl_username,
            "sasl.password": settings.sasl_password,
        }
    if settings.uses_tls:
        told |= {
            "ssl.ca.location": settings.ca_file,
            "ssl.certificate.location": settings.certificate_file,
            "ssl.key.location": settings.key_file or settings.certificate_file,
            "ssl.key.password": settings.key_password,
            "ssl.endpoint.identification.algorithm": "https" if settings.check_hostname else "none",
        }
    return Access(settings.bootstrap_servers, {name: value for name, value in told.items() if value})
