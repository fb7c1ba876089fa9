"""The pipeline of a torture run: `python -m oncestream.verify.torture_pipeline '{"bootstrap": ...}'`.

Copies numbers on Spark, exactly once, until it is killed or cannot go on.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from oncestream.errors import OncestreamError
from oncestream.verify.torture_clients import LIFE_OVER, end_with_parent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRANSACTION_TIMEOUT_MS: Final = 30_000
REQUEST_TIMEOUT_MS: Final = 10_000
BATCH_RECORDS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class PipelineTask:
    bootstrap: str
    inputs: str
    outputs: str
    checkpoint: str

    @property
    def name(self) -> str:
        return pipeline_name(self.inputs)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def pipeline_name(inputs: str) -> str:
    return f"{inputs}.pipeline"


def main() -> int:
    end_with_parent()
    task = PipelineTask(**json.loads(sys.argv[1]))
    import oncestream as once

    pipeline = once.pipeline(
        name=task.name,
        source=task.inputs,
        sink=task.outputs,
        read={"maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX)},
        bootstrap_servers=task.bootstrap,
        settings={"request.timeout.ms": str(REQUEST_TIMEOUT_MS)},
        checkpoint=task.checkpoint,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )(_same)
    spark = once.session("torture", master="local[2]", settings={"spark.log.level": "ERROR"})
    try:
        pipeline.run(spark)
    except OncestreamError as error:
        sys.stderr.write(f"{error}\n")
        return LIFE_OVER
    return 0


def _same(rows: DataFrame) -> DataFrame:
    return rows.select("value")


if __name__ == "__main__":
    sys.exit(main())
