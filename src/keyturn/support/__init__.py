"""What every room may use and no room owns: keys, files of SQLite, calls of user code, lazy and missing packages."""
