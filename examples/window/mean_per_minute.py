"""A window with watermark: the mean of every pump and minute, written once the minute is over."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import oncestream as once

TEMPERATURE = "pump STRING, celsius INT, at TIMESTAMP"


@once.pipeline(source="temperatures", sink="means")
def mean_per_minute(temperatures: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    parsed = temperatures.select(F.from_json(text, TEMPERATURE).alias("measured")).select("measured.*")
    # The watermark is the latest `at` seen so far, less 30 seconds. When it passes the end of a minute, the
    # mean of that minute is written, and what comes for it later is dropped.
    minutes = parsed.withWatermark("at", "30 seconds").groupBy("pump", F.window("at", "1 minute"))
    means = minutes.agg(F.round(F.avg("celsius")).cast("int").alias("mean"), F.count("*").alias("readings"))
    row = F.struct("pump", F.col("window.start").alias("minute"), "mean", "readings")
    return means.select(F.col("pump").alias("key"), F.to_json(row).alias("value"))
