"""The demo: files with transactions, loaded exactly once by a pipeline that is killed twice on the way."""
