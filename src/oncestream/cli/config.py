"""`oncestream config`: profiles of clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from oncestream.cli.command import noun
from oncestream.cli.completion import profile_names
from oncestream.cli.output import Output, OutputOption, show, show_one
from oncestream.cli.profiles import BOOTSTRAP, SECRET_SOURCES, Profiles, load_profiles
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadProfile

app = noun("Profiles: several clusters and how to reach them.")

Name = Annotated[str, typer.Argument(help="The profile's name.", autocompletion=profile_names)]


@app.command("set")
def set_(
    name: Name,
    settings: Annotated[
        list[str],
        typer.Argument(
            help="bootstrap=HOST:PORT, password_file=, password_env=, or Kafka's settings; name= removes."
        ),
    ],
    use: Annotated[bool, typer.Option("--use", help="And use it from now on.")] = False,
) -> None:
    """Make a profile, or change it."""
    profiles = load_profiles()
    profiles.put(name, _pairs(name, settings))
    _check(profiles, name)
    if use or not profiles.current:
        profiles.current = name
    profiles.save()


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """All profiles."""
    profiles = load_profiles()
    rows = [
        {"profile": name, "bootstrap": entry.get(BOOTSTRAP), "in_use": name == profiles.current}
        for name, entry in sorted(profiles.entries.items())
    ]
    show(rows, output, ("profile", "bootstrap", "in_use"))


@app.command("show")
def show_(name: Name, output: OutputOption = Output.TABLE) -> None:
    """The settings of a profile; secrets are not in it, only where they are."""
    show_one(load_profiles().entry(name), output)


@app.command()
def use(name: Name) -> None:
    """Take this profile where no other cluster is named."""
    profiles = load_profiles()
    profiles.entry(name)
    profiles.current = name
    profiles.save()


@app.command()
def delete(name: Name) -> None:
    """Forget a profile."""
    profiles = load_profiles()
    profiles.entry(name)
    del profiles.entries[name]
    if profiles.current == name:
        profiles.current = None
    profiles.save()


def _pairs(name: str, texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            # The text is not repeated: it may be a password.
            raise BadProfile(name=name, reason="a setting is name=value")
        pairs[key] = value
    return pairs


def _check(profiles: Profiles, name: str) -> None:
    """A name or value that Kafka's clients do not know is refused now, not at the first use."""
    entry = profiles.entry(name)
    own = {key: value for key, value in entry.items() if key != BOOTSTRAP and key not in SECRET_SOURCES}
    ClientSettings.of(entry.get(BOOTSTRAP) or "localhost:9092", own)
