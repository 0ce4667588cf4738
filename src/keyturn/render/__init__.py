"""The one way from data to a person's eyes; every face (terminal, web, mail, chat) draws with it.

escape    text made visible, clipped only with a mark, and read back exactly
names     why a name may not be what it looks like
diff      the rows of a difference, in bounded time
layout    a preview as styled lines of escaped text
arguments a call's arguments, texts as texts
one_row   the first arguments of a call, in one row
terminal  those lines for a terminal
html      those lines for a web page or a mail
"""
