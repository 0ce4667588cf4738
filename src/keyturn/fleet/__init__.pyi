from .base import Engine as Engine
from .base import EngineHealth as EngineHealth
from .base import EnginePlace as EnginePlace
from .base import Moves as Moves
from .base import Wake as Wake
from .base import WakeOutcome as WakeOutcome
from .dbos import DBOSEngine as DBOSEngine
from .temporal import TemporalEngine as TemporalEngine

ENGINES: dict[str, str]
JOURNAL: str

def asked_engine(name: str | None = None, url: str | None = None) -> tuple[str, str]: ...
def engine_named(name: str, journal: str, url: str = "") -> Engine | None: ...
