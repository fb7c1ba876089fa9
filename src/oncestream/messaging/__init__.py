"""Producers and consumers for applications: thin and typed over confluent-kafka, stream names understood."""
