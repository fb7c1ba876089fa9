"""Quotas through the client."""

from __future__ import annotations

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.quotas import (
    CONSUMER_BYTE_RATE,
    EVERYONE_ELSE,
    PRODUCER_BYTE_RATE,
    QuotaOf,
    alter_quotas,
    describe_quotas,
)
from oncestream.errors import BadQuota, RequestRefused
from tests.client.kit import new_name, wait_until

HIGH = 1e12


def test_quotas_come_back_as_they_were_set_until_they_are_taken_away(cluster: Cluster) -> None:
    user, client = new_name("user"), new_name("client")
    whose = [QuotaOf(user=user), QuotaOf(client_id=client), QuotaOf(user=user, client_id=client)]
    alter_quotas(cluster, {each: {PRODUCER_BYTE_RATE: HIGH + i} for i, each in enumerate(whose)})
    alter_quotas(cluster, {whose[0]: {CONSUMER_BYTE_RATE: HIGH}})
    expected = {
        whose[0]: {PRODUCER_BYTE_RATE: HIGH, CONSUMER_BYTE_RATE: HIGH},
        whose[1]: {PRODUCER_BYTE_RATE: HIGH + 1},
        whose[2]: {PRODUCER_BYTE_RATE: HIGH + 2},
    }
    wait_until(lambda: expected.items() <= describe_quotas(cluster).items())
    assert describe_quotas(cluster, QuotaOf(user=user)) == {
        each: expected[each] for each in (whose[0], whose[2])
    }
    assert describe_quotas(cluster, whose[2]) == {whose[2]: expected[whose[2]]}
    alter_quotas(cluster, {each: {PRODUCER_BYTE_RATE: None} for each in whose})
    wait_until(lambda: describe_quotas(cluster, QuotaOf(user=user)) == {whose[0]: {CONSUMER_BYTE_RATE: HIGH}})
    alter_quotas(cluster, {whose[0]: {CONSUMER_BYTE_RATE: None}})
    wait_until(lambda: describe_quotas(cluster, QuotaOf(user=user)) == {})


def test_there_are_quotas_for_everyone_who_has_none(cluster: Cluster) -> None:
    whose = QuotaOf(client_id=EVERYONE_ELSE)
    alter_quotas(cluster, {whose: {PRODUCER_BYTE_RATE: HIGH}})
    wait_until(lambda: describe_quotas(cluster, whose) == {whose: {PRODUCER_BYTE_RATE: HIGH}})
    alter_quotas(cluster, {whose: {PRODUCER_BYTE_RATE: None}})
    wait_until(lambda: describe_quotas(cluster, whose) == {})


def test_what_is_only_checked_changes_nothing(cluster: Cluster) -> None:
    whose = QuotaOf(user=new_name("user"))
    alter_quotas(cluster, {whose: {PRODUCER_BYTE_RATE: HIGH}}, validate_only=True)
    assert describe_quotas(cluster, whose) == {}


def test_a_quota_that_there_is_not_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RequestRefused, match="INVALID_REQUEST"):
        alter_quotas(cluster, {QuotaOf(user="u"): {"speed": 1.0}})


def test_a_quota_of_nobody_is_refused_before_it_is_sent(cluster: Cluster) -> None:
    with pytest.raises(BadQuota, match="nobody"):
        alter_quotas(cluster, {QuotaOf(): {PRODUCER_BYTE_RATE: 1.0}})
