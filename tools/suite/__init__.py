"""Plugins of pytest for this project's own suite: order, second runs, minutes. `make test` loads them."""
