from .decisions import Undecided as Undecided
from .decisions import decide as decide
