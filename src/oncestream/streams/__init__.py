"""Streams: named collections of topics that share permissions, time-to-live, partitions and compression."""
