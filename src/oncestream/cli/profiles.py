"""Profiles: clusters and how to reach them, in one file that holds no secret."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncestream.errors import BadProfile, BadProfileFile, NoSuchProfile, SecretInProfile

FILE_MODE: Final = 0o600
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
BOOTSTRAP: Final = "bootstrap"

# Where a secret is, in place of the secret.
SECRET_SOURCES: Final = {
    "password_file": "sasl.password",
    "password_env": "sasl.password",
    "key_password_file": "ssl.key.password",
    "key_password_env": "ssl.key.password",
}
SECRETS: Final = frozenset({"password", "sasl.password", "ssl.key.password", "sasl.jaas.config"})


@dataclass(slots=True)
class Profiles:
    """All profiles by name, and the one in use."""

    path: Path
    current: str | None = None
    entries: dict[str, dict[str, str]] = field(default_factory=dict)

    def entry(self, name: str) -> dict[str, str]:
        if name not in self.entries:
            raise NoSuchProfile(name=name, known=", ".join(sorted(self.entries)) or "none")
        return self.entries[name]

    def settings_of(self, name: str | None) -> dict[str, str]:
        """Kafka's settings of a profile, secrets filled in; of the one in use where no name is given."""
        if name is None and self.current is None:
            return {}
        chosen = name or str(self.current)
        settings: dict[str, str] = {}
        for key, value in self.entry(chosen).items():
            if key == BOOTSTRAP:
                settings["bootstrap.servers"] = value
            elif key in SECRET_SOURCES:
                settings[SECRET_SOURCES[key]] = _secret(chosen, key, value)
            else:
                settings[key] = value
        return settings

    def put(self, name: str, values: Mapping[str, str]) -> None:
        """Adds to a profile or makes it; an empty value removes a setting."""
        if not NAME.fullmatch(name):
            raise BadProfile(name=name, reason="a name is 1 to 64 letters, digits, - and _")
        for key in values:
            if key in SECRETS:
                raise SecretInProfile(key=key)
        merged = {**self.entries.get(name, {}), **values}
        self.entries[name] = {key: value for key, value in merged.items() if value}

    def save(self) -> None:
        """In one step, readable by its owner alone."""
        lines = [] if self.current is None else [f"current = {_text(self.current)}", ""]
        for name, values in sorted(self.entries.items()):
            lines += [
                f"[profiles.{name}]",
                *(f"{_text(key)} = {_text(value)}" for key, value in values.items()),
            ]
            lines.append("")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self.path.with_suffix(".new")
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            new.replace(self.path)
        except OSError as error:
            raise BadProfileFile(file=self.path, reason=error.strerror) from None


def profiles_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "oncestream" / "config.toml"


def load_profiles() -> Profiles:
    """What the file says; empty where there is none."""
    path = profiles_path()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles(path)
    except OSError as error:
        raise BadProfileFile(file=path, reason=error.strerror) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadProfileFile(file=path, reason=f"not TOML: {error}") from None
    tables = content.get("profiles", {})
    current = content.get("current")
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise BadProfileFile(file=path, reason="a profile is a table [profiles.NAME]")
    entries = {name: {key: str(value) for key, value in table.items()} for name, table in tables.items()}
    return Profiles(path, None if current is None else str(current), entries)


def _secret(profile: str, key: str, place: str) -> str:
    if key.endswith("_env"):
        if place not in os.environ:
            raise BadProfile(name=profile, reason=f"environment variable {place} ({key}) is not set")
        return os.environ[place]
    try:
        return Path(place).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadProfile(name=profile, reason=f"{key} {place} cannot be read: {error}") from None


def _text(value: str) -> str:
    """A TOML text: JSON's form, and one character more that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
