"""Transactions: who may write in which, how they end, and that they do.

`state` is the table of states, `record` a transaction's form in the log, `initialize`, `join` and `end` decide
without I/O what a request makes of a transaction. `coordinator` writes, waits and answers; `recovery` makes the
partitions and the log agree at start-up.
"""
