"""A real control plane with nodes that KWOK stands in for, and what is measured on it."""
