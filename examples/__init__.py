"""Programs to read and to run; README.md lists them."""
