"""Is the library here? Also fills the bytecode and file caches, so that the import row measures a warm machine."""

from ..subjects import Subject


def measure(subject: Subject) -> dict[str, str]:
    """The installed version, or why there is nothing to measure."""
    try:
        subject.driver()
        exec(subject.imports, {})
    except ImportError as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    return {"version": subject.version()}
