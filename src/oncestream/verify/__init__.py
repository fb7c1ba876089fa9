"""Proof: histories of clients and their checker, audits of a user's topics."""
