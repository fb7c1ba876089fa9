"""Stream processors that do the same job: read a topic, upper-case the values, write a topic."""
