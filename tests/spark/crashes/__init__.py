"""Drivers, brokers and answers lost at every point of a batch: the output stays exact."""
