"""One file per API, named after it; `handle` is found by that name."""
