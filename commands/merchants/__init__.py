"""Commands of the operator about merchants and integrators."""
