"""Ad clicks joined with the impressions they belong to, every id once: what an advertiser pays for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import oncestream as once

IMPRESSION = "id STRING, at TIMESTAMP, campaign STRING, cents INT"
CLICK = "id STRING, at TIMESTAMP, impression STRING"


@once.pipeline(source={"impressions": "impressions", "clicks": "clicks"}, sink="billable-clicks")
def billable_clicks(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    shown = distinct(impressions, IMPRESSION).alias("shown")
    clicked = distinct(clicks, CLICK).alias("clicked")
    # A click counts for an hour. With the watermarks this bound tells Spark what it may forget.
    within_an_hour = F.expr("clicked.at BETWEEN shown.at AND shown.at + INTERVAL 1 HOUR")
    joined = clicked.join(shown, F.expr("clicked.impression = shown.id") & within_an_hour)
    row = F.struct(F.col("clicked.id").alias("click"), "clicked.at", "shown.campaign", "shown.cents")
    return joined.select(F.col("shown.campaign").alias("key"), F.to_json(row).alias("value"))


def distinct(events: DataFrame, schema: str) -> DataFrame:
    """The events in the records' JSON, each id once, however often a phone or a proxy has sent it."""
    text = F.col("value").cast("string")
    parsed = events.select(F.from_json(text, schema).alias("event")).select("event.*")
    return parsed.withWatermark("at", "10 minutes").dropDuplicatesWithinWatermark(["id"])
