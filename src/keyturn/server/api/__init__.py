"""The API for programs, version 1: JSON in, JSON out, on the App that the pages have as well."""
