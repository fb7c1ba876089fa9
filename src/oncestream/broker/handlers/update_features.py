"""UpdateFeatures (57), versions 0-2: choose the level of a feature, all of the request or none of it.

Differs from Apache Kafka: only transaction.version can be changed.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.catalog import set_feature
from oncestream.broker.features import UpgradeType, check_change, levels_in_force
from oncestream.broker.security.acls import CLUSTER_NAME
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    catalog = call.node.catalog
    current = levels_in_force(catalog.features)
    code, message = ErrorCode.NONE, None
    try:
        call.require(Operation.ALTER, ResourceType.CLUSTER)
        for update in request.feature_updates:
            kind = _kind(update, call.version)
            check_change(update.feature, update.max_version_level, kind, current.get(update.feature, 0))
        levels = {update.feature: update.max_version_level for update in request.feature_updates}
        if levels and not request.validate_only:
            catalog.commit(
                [set_feature(name, level) for name, level in levels.items()], call.node.clock.now_ms()
            )
            call.changed(ResourceType.CLUSTER, CLUSTER_NAME, "set features", levels=levels)
    except KafkaError as error:
        code, message = error.code, error.message
    return UpdateFeaturesResponse(
        error_code=code,
        error_message=message,
        results=[
            UpdatableFeatureResult(feature=update.feature, error_code=code, error_message=message)
            for update in request.feature_updates
        ],
    )


def _kind(update: FeatureUpdateKey, version: int) -> int:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return update.upgrade_type
