"""`oncestream config` and which cluster a command talks to."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.cli.cluster import chosen_cluster, read_properties
from oncestream.cli.profiles import Profiles
from oncestream.errors import BadArgument
from tests.cli.in_process import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def file_of(folder: Path) -> Path:
    return folder / "oncestream" / "config.toml"


def test_profiles_are_made_listed_shown_used_and_deleted(cli: Cli, tmp_path: Path) -> None:
    cli.ok("config", "set", "dev", "bootstrap=localhost:9092")
    cli.ok(
        "config", "set", "prod", "bootstrap=kafka:9093", "security.protocol=SASL_SSL", "password_env=SECRET"
    )
    assert cli.ok("config", "list") == (
        "profile   bootstrap        in_use\n"
        "─────────────────────────────────\n"
        "dev       localhost:9092   yes\n"
        "prod      kafka:9093       no\n"
    )
    cli.ok("config", "use", "prod")
    assert cli.json("config", "list")[1] == {"profile": "prod", "bootstrap": "kafka:9093", "in_use": True}
    expected = {"bootstrap": "kafka:9093", "security.protocol": "SASL_SSL", "password_env": "SECRET"}
    assert cli.json("config", "show", "prod") == expected
    assert cli.ok("config", "show", "prod", "-o", "yaml") == (
        'bootstrap: "kafka:9093"\n"security.protocol": "SASL_SSL"\npassword_env: "SECRET"\n'
    )
    cli.ok("config", "set", "prod", "security.protocol=", "password_env=")
    assert cli.ok("config", "show", "prod") == "bootstrap  kafka:9093\n"
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    cli.ok("config", "delete", "prod")
    assert [row["profile"] for row in cli.json("config", "list")] == ["dev"]
    assert "there is no profile 'prod'; there are: dev" in cli.refused(2, "config", "show", "prod")


@pytest.mark.parametrize("key", ["password", "sasl.password", "ssl.key.password", "sasl.jaas.config"])
def test_a_secret_is_refused_and_not_repeated(cli: Cli, tmp_path: Path, key: str) -> None:
    told = cli.refused(2, "config", "set", "p", f"{key}=hunter2")
    assert f"{key} is a secret, and profiles hold none" in told
    assert "password_file=PATH" in told
    assert "hunter2" not in told
    assert not file_of(tmp_path).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["set", "a b", "bootstrap=x:1"], "a name is 1 to 64 letters"),
        (["set", "../x", "bootstrap=x:1"], "a name is 1 to 64 letters"),
        (["set", "p", "bootstrap"], "a setting is name=value"),
        (["set", "p", "bootstrap=:::"], "is not HOST:PORT"),
        (["set", "p", "no.such.setting=1"], "there is no such setting"),
        (["set", "p", "security.protocol=TELNET"], "TELNET"),
        (["set", "p"], "settings"),
        (["use", "p"], "there is no profile 'p'; there are: none"),
        (["delete", "p"], "there is no profile 'p'"),
    ],
)
def test_bad_input_is_refused(cli: Cli, tmp_path: Path, arguments: list[str], told: str) -> None:
    assert told in cli.refused(2, "config", *arguments)
    assert not file_of(tmp_path).exists()


@pytest.mark.parametrize("content", ["x = ", "profiles = 5", "[profiles]\na = 1", b"\xff"])
def test_a_damaged_file_is_told(cli: Cli, tmp_path: Path, content: str | bytes) -> None:
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_bytes(content if isinstance(content, bytes) else content.encode())
    for arguments in (("config", "list"), ("topic", "list")):
        assert f"the file of profiles {file_of(tmp_path)} cannot be used" in cli.refused(2, *arguments)


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(
    entries=st.dictionaries(st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True), st.dictionaries(text, text))
)
def test_what_is_saved_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, dict[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("profiles") / "config.toml"
    Profiles(path, "x", entries).save()
    assert tomllib.loads(path.read_bytes().decode()).get("profiles", {}) == entries


class TestWhichCluster:
    """Options first, then the environment, then the profile in use."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        for name in ("ONCESTREAM_BOOTSTRAP", "ONCESTREAM_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        (tmp_path / "secret").write_text("from file\n")
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u"}
        entries = {
            "one": {"bootstrap": "one:1", **login, "password_file": str(tmp_path / "secret")},
            "two": {"bootstrap": "two:2", "password_env": "NOT_SET"},
        }
        Profiles(tmp_path / "oncestream" / "config.toml", "one", entries).save()

    def test_the_profile_in_use_is_the_default(self) -> None:
        chosen = chosen_cluster(None, None, None)
        assert (chosen.servers, chosen.settings().sasl_password) == ("one:1", "from file")

    def test_an_address_alone_never_gets_the_login_of_a_profile(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert chosen_cluster("other:9", None, None).settings().sasl_password == ""
        monkeypatch.setenv("ONCESTREAM_PROFILE", "one")
        assert chosen_cluster("other:9", None, None).settings().sasl_password == ""
        monkeypatch.delenv("ONCESTREAM_PROFILE")
        monkeypatch.setenv("ONCESTREAM_BOOTSTRAP", "env:9")
        chosen = chosen_cluster(None, None, None)
        assert (chosen.servers, chosen.settings().sasl_password) == ("env:9", "")

    def test_a_profile_named_with_an_address_gives_its_login_there(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = chosen_cluster("other:9", "one", None)
        assert (chosen.servers, chosen.settings().sasl_password) == ("other:9", "from file")
        monkeypatch.setenv("ONCESTREAM_BOOTSTRAP", "env:9")
        assert chosen_cluster(None, "one", None).servers == "one:1"
        monkeypatch.setenv("ONCESTREAM_PROFILE", "one")
        chosen = chosen_cluster(None, None, None)
        assert (chosen.servers, chosen.settings().sasl_password) == ("env:9", "from file")

    def test_a_secret_that_is_not_where_it_should_be_is_told(self, tmp_path: Path) -> None:
        told = Cli(tmp_path).refused(2, "topic", "list", "--profile", "two")
        assert "environment variable NOT_SET (password_env) is not set" in told
        (tmp_path / "secret").unlink()
        assert "cannot be read" in Cli(tmp_path).refused(2, "topic", "list")
        assert "there is no profile 'six'; there are: one, two" in Cli(tmp_path).refused(
            2, "topic", "list", "--profile", "six"
        )

    def test_a_file_of_kafkas_settings_wins(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text(
            "# comment\n! another\n\nbootstrap.servers = kafka:1\nsasl.mechanism=SCRAM-SHA-\\\n512\n"
            'sasl.jaas.config=x required username="a" password="b=c";\n'
        )
        assert read_properties(file)["sasl.mechanism"] == "SCRAM-SHA-512"
        chosen = chosen_cluster(None, None, file)
        assert (chosen.servers, chosen.settings().sasl_password) == ("kafka:1", "b=c")
        file.write_text("nonsense\n")
        with pytest.raises(BadArgument, match="line 1 is not name=value"):
            read_properties(file)
        told = Cli(tmp_path).refused(2, "topic", "list", "--command-config", str(tmp_path / "none"))
        assert "it cannot be read" in told
