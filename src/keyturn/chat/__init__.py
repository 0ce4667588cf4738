"""A terminal assistant: a deep agent in a Textual app, whose calls wait for the person in front of it.

transcript    a run's log as what a person reads
drawing       that as rows of escaped text, for a width
archive       the conversations of a journal
conversation  what is said and decided, and who moves the run; nothing here knows a screen
assistant     the agent, its files and its model
screen        the Textual app; its parts stand beside it in `widgets/`
"""
