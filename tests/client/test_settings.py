"""Kafka's setting names, understood, ignored or refused."""

from __future__ import annotations

import logging
import pickle

import pytest

from oncestream.client.settings import Address, ClientSettings
from oncestream.errors import BadSetting


def test_addresses_may_lack_the_port_and_may_be_ipv6() -> None:
    found = ClientSettings.of("a:1, b ,[::1]:3,PLAINTEXT://c:4").bootstrap
    assert found == (Address("a", 1), Address("b", 9092), Address("::1", 3), Address("c", 4))


@pytest.mark.parametrize("text", ["", " , ", "a:b", "a:99999", "a b:1"])
def test_an_address_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"bootstrap\.servers"):
        ClientSettings.of(text)


def test_settings_by_their_kafka_names_are_understood() -> None:
    settings = ClientSettings.of(
        "a:1",
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "secret",
            "ssl.ca.location": "/ca.pem",
            "request.timeout.ms": "1500",
            "ssl.endpoint.identification.algorithm": "",
        },
    )
    assert (settings.uses_tls, settings.uses_sasl, settings.check_hostname) == (True, True, False)
    assert (settings.sasl_mechanism, settings.ca_file) == ("SCRAM-SHA-512", "/ca.pem")
    assert settings.request_timeout_ms == 1500


def test_a_java_login_line_gives_user_and_password() -> None:
    line = r'org.apache.kafka.X required username="al\"ice" password="p=;w";'
    settings = ClientSettings.of("a:1", {"sasl.jaas.config": line})
    assert (settings.sasl_username, settings.sasl_password) == ('al"ice', "p=;w")


def test_passwords_are_not_shown() -> None:
    settings = ClientSettings.of("a:1", {"sasl.password": "secret", "ssl.key.password": "secret"})
    assert "secret" not in repr(settings)


def test_settings_can_be_kept_by_and_sent_to_other_processes() -> None:
    settings = ClientSettings.of("a:1", {"client.id": "x"})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert {settings: 1}[ClientSettings.of("a:1", {"client.id": "x"})] == 1


def test_settings_of_other_clients_are_ignored_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ClientSettings.of("a:1", {"group.id": "g", "key.deserializer": "X", "max.poll.records": "5"})
    assert [record.message for record in caplog.records] == [
        "settings without meaning for this client are ignored: group.id, key.deserializer, max.poll.records"
    ]


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadSetting, match=r"did you mean security\.protocol"):
        ClientSettings.of("a:1", {"security.protocoll": "SSL"})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("request.timeout.ms", "soon", "'soon' is not a whole number"),
        ("sasl.mechanism", "GSSAPI", "'GSSAPI' is none of PLAIN"),
        ("ssl.truststore.type", "JKS", "only PEM files are understood, not JKS"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason) as refused:
        ClientSettings.of("a:1", {name: value})
    assert refused.value.facts["name"] == name
    assert "settings.md" not in str(refused.value), "that is the broker's page"
