"""The place where people decide, over HTTP: an API for programs and pages for people, on one `App`."""
