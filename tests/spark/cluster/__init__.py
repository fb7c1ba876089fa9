"""Pipelines on clusters of Spark and Kafka, and beside Spark's own connector."""
