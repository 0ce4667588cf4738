"""The version of this package, written once; the build and `keyturn.__version__` read it from here."""

__version__ = "0.1.0.dev0"
