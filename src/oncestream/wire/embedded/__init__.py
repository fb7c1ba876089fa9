"""Messages inside others: records of the coordinators' logs, control records, members' subscriptions."""
