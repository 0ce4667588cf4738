"""The Agent Approval Protocol (AAP): adapters of other frameworks ask here, in their own words, for external calls."""
