"""JSON in, JSON out: every reading above 80 °C becomes an alarm."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import oncestream as once

READING = "pump STRING, celsius INT, at TIMESTAMP"


@once.pipeline(source="readings", sink="alarms")
def hot_pumps(readings: DataFrame) -> DataFrame:
    # A record's value is bytes: cast it to text, then take the JSON apart into columns.
    text = F.col("value").cast("string")
    parsed = readings.select(F.from_json(text, READING).alias("reading")).select("reading.*")
    hot = parsed.where("celsius > 80").withColumn("above_by", F.col("celsius") - 80)
    # And back: `value` is what is written, `key` puts the alarms of a pump into one partition.
    return hot.select(F.col("pump").alias("key"), F.to_json(F.struct("*")).alias("value"))
