"""Mutation runs: small faults in the sources, and which of them no test notices. `make mutants` does one."""
