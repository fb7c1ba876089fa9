"""The command line: one file per noun; parse, call, print."""
