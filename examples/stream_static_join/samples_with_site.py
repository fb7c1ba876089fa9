"""A stream-static join: every sample gets the site of its pump, from a CSV file."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import oncestream as once

SAMPLE = "pump STRING, celsius INT"
PUMPS = Path(__file__).with_name("pumps.csv").absolute()


@once.pipeline(source="samples", sink="samples-with-site")
def samples_with_site(samples: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    parsed = samples.select(F.from_json(text, SAMPLE).alias("sample")).select("sample.*")
    # Any DataFrame that is no stream will do: a file, a table, a database. Spark reads it in every batch.
    pumps = samples.sparkSession.read.csv(PUMPS.as_uri(), header=True, schema="pump STRING, site STRING")
    # A left join: a sample of an unknown pump is not lost, its site is null and so not in the JSON.
    joined = parsed.join(pumps, "pump", "left")
    return joined.select(F.col("pump").alias("key"), F.to_json(F.struct("*")).alias("value"))
