"""PySpark: source, transactional sink, pipelines, session. The only place that imports pyspark."""
