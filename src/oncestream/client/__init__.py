"""Blocking Kafka client for the driver, executors and tools: Arrow in, Arrow out."""
