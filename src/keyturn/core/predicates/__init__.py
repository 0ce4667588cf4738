"""The language of predicates: which calls a rule or a grant means, by their validated arguments."""
