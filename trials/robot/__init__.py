"""A model that is a robot, and what programs need around it, on 127.0.0.1, for programs that are no tests."""
