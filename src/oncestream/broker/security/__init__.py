"""Who may come in, who may do what, and the record of it."""
