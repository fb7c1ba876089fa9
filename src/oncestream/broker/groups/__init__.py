"""Consumer groups: membership, assignment and committed offsets, classic and KIP-848.

Everything but `coordinator` is free of I/O. A step of a group changes what need not survive a restart (who waits
for what, until when) and collects records; `DurableState.replay` alone changes what the log holds.
"""
