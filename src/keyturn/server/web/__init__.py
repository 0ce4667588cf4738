"""The pages for people: server-rendered HTML, and one small script that makes them live."""
