"""Users with SCRAM passwords through the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.users import Credential, ScramMechanism, delete_user, list_users, put_user
from oncestream.errors import AuthenticationFailed, BadUser, NotAuthorized, UnknownUser
from tests.client.kit import new_name, wait_until
from tests.conftest import PASSWORDS, Secured


@pytest.fixture
def admin(secured: Secured) -> Iterator[Cluster]:
    cluster = Cluster(ClientSettings.of(secured.bootstrap_servers, secured.settings_of("admin")))
    yield cluster
    cluster.close()


def can_log_in(secured: Secured, name: str, password: str) -> bool:
    login = {**secured.settings_of("alice"), "sasl.username": name, "sasl.password": password}
    cluster = Cluster(ClientSettings.of(secured.bootstrap_servers, login))
    try:
        return bool(cluster.cluster_id)
    except AuthenticationFailed:
        return False
    finally:
        cluster.close()


def test_a_new_user_logs_in_with_its_password_until_it_is_removed(secured: Secured, admin: Cluster) -> None:
    name = new_name("user")
    put_user(admin, name, "first, =secret")
    wait_until(lambda: can_log_in(secured, name, "first, =secret"))
    assert not can_log_in(secured, name, "second")
    put_user(admin, name, "second")
    wait_until(lambda: can_log_in(secured, name, "second"))
    assert not can_log_in(secured, name, "first, =secret")
    delete_user(admin, name)
    wait_until(lambda: not can_log_in(secured, name, "second"))
    assert name not in list_users(admin)


def test_users_are_listed_with_their_mechanisms(admin: Cluster) -> None:
    name = new_name("user")
    put_user(admin, name, "one", ScramMechanism.SCRAM_SHA_256, 4096)
    put_user(admin, name, "two")
    both = [Credential(ScramMechanism.SCRAM_SHA_256, 4096), Credential(ScramMechanism.SCRAM_SHA_512, 8192)]
    wait_until(lambda: list_users(admin).get(name) == both)
    assert set(PASSWORDS) <= set(list_users(admin))
    delete_user(admin, name)
    wait_until(lambda: name not in list_users(admin))


def test_a_user_that_there_is_not_cannot_be_removed(admin: Cluster) -> None:
    with pytest.raises(UnknownUser, match="nobody"):
        delete_user(admin, "nobody")


@pytest.mark.parametrize(("password", "iterations"), [("", 8192), ("secret", 100), ("secret", 20_000)])
def test_passwords_that_no_broker_takes_are_refused_before_they_are_sent(
    admin: Cluster, password: str, iterations: int
) -> None:
    with pytest.raises(BadUser):
        put_user(admin, "weak", password, iterations=iterations)


def test_only_who_may_alter_the_cluster_changes_users(secured: Secured) -> None:
    alice = Cluster(ClientSettings.of(secured.bootstrap_servers, secured.settings_of("alice")))
    with pytest.raises(NotAuthorized):
        list_users(alice)
    with pytest.raises(NotAuthorized):
        put_user(alice, "admin", "taken over")
    with pytest.raises(NotAuthorized):
        delete_user(alice, "admin")
    alice.close()
