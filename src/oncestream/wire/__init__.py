"""Kafka requests and responses to bytes and back. Pure: no sockets, no files, no clock."""
