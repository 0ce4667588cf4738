"""A gated function: bind its arguments, ask, wait, claim once, run what was approved, report what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, cast

import msgspec

from ..asks.ask import Ask, AskState
from ..core.approval import Approval
from ..core.digest import digest
from ..core.encodable import Encodable
from ..core.errors import UserError
from ..tools.base import InvalidArguments
from ..tools.functions.schema import FunctionSchema, function_schema
from .claims import Attempt, outcome_of, renewed, reported
from .context import GatedRun, current, verdict
from .door import Door, announce
from .errors import CallClaimed, CallDenied

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 25.0
#: For how many seconds a worker is waited for, where no person is.
_CHECKED = 10.0
_HAS_RESULT = ("succeeded", "answered")
_UNREADABLE = "keyturn: the result is no JSON and was not recorded"


@dataclass(frozen=True)
class Options:
    """Holds what `@gated(...)` was given."""

    name: str | None = None
    approval: Approval | None = None
    risk: str | None = None
    key: Callable[[dict[str, Any]], object] | None = None
    editable: bool = True


class Pending(Encodable, frozen=True):
    """Names a call that was asked for: `id` resumes it, in any process that has the function.

    >>> dict(Pending("5e1f", "refund"))
    {'id': '5e1f', 'function': 'refund'}
    """

    id: str
    function: str


class GatedFunction(Generic[P, R]):
    """Calls a function once its call is approved; `@gated` makes one."""

    def __init__(self, function: Callable[P, R], door: Door, options: Options) -> None:
        self._function: Callable[..., Any] = function
        self._door = door
        self._options = options
        self._schema: FunctionSchema = function_schema(function, name_override=options.name)
        self._parameters = inspect.signature(function)
        if next(iter(self._parameters.parameters), "") in ("self", "cls"):
            raise UserError(f"{self.name} is a method, and its object cannot be shown: gate a function")
        functools.update_wrapper(cast("Any", self), function)

    def __reduce__(self) -> str:
        """Pickle and copy it by its name, as functions are: the process that reads it has a gate of its own."""
        return str(getattr(self._function, "__qualname__", self.name))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask for the call, wait for the decision, and run it; of an async function await what is returned."""
        if self._schema.is_async:
            return cast("R", self.aio(*args, **kwargs))
        _check_no_loop(self.name)
        made = self._bound(args, kwargs)
        if (said := verdict()) is not None:
            return self._tested(said, made)
        attempt = Attempt()
        with self._before(attempt):
            state = self._claimed(self._door.run(self._decided(made, attempt)), attempt)
        return self._run(state, attempt)

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Ask, wait and run as a call does, without blocking the loop; a plain function is run in a thread."""
        made = self._bound(args, kwargs)
        if (said := verdict()) is not None:
            result: Any = self._tested(said, made)
            return await result if inspect.isawaitable(result) else result
        attempt = Attempt()
        async with self._before_in_loop(attempt):
            state = await self._claimed_in_loop(await self._door.aio(self._decided(made, attempt)), attempt)
        return await self._run_in_loop(state, attempt)

    def ask(self, *args: P.args, **kwargs: P.kwargs) -> Pending:
        """Ask for the call and return at once; `resume` runs it after the decision."""
        return Pending(self._door.run(self._asked(self._bound(args, kwargs))).id, self.name)

    def resume(self, id: str | Pending) -> R:
        """Run a call that was asked for and approved, with the arguments that were approved.

        Raises `CallWaiting` while the decision is pending. A call that was run already returns its recorded result.
        """
        _check_no_loop(self.name)
        state = self._door.run(self._to_resume(id))
        if self._schema.is_async:
            return cast("R", self._resumed(state))
        attempt = Attempt()
        with self._before(attempt):
            state = self._claimed(state, attempt)
        return self._run(state, attempt)

    async def aresume(self, id: str | Pending) -> Any:
        """Run a call as `resume` does, without blocking the loop."""
        return await self._resumed(await self._door.aio(self._to_resume(id)))

    async def _resumed(self, state: AskState) -> Any:
        attempt = Attempt()
        async with self._before_in_loop(attempt):
            state = await self._claimed_in_loop(state, attempt)
        return await self._run_in_loop(state, attempt)

    def state(self, id: str | Pending) -> AskState:
        """Return how the request of a call stands."""
        return self._door.run(self._looked(id))

    @property
    def name(self) -> str:
        """Return the name under which people see the function."""
        return self._schema.name

    # What is asked ----------------------------------------------------------------------------------------------

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the text of the arguments as they would run: bound by the signature, validated, defaults filled in."""
        given = self._parameters.bind(*args, **kwargs)
        try:
            text = msgspec.json.encode(_json_of(given.arguments)).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{self.name} was not asked for: its arguments are no JSON ({error})") from None
        try:
            return self._schema.freeze(text).text
        except InvalidArguments as error:
            raise UserError(f"{self.name} was not asked for: {error}") from None

    def _ask(self, text: str, context: GatedRun) -> Ask:
        options = self._options
        params: dict[str, Any] = msgspec.json.decode(text)
        named = None if options.key is None else f"{self.name} {options.key(params)}"
        return Ask(
            key=named or context.key(f"{self.name} {digest(params)[:16]}"),
            tool=self.name,
            arguments=text,
            description=self._schema.description,
            schema=self._schema.params_json_schema,
            terms=options.approval,
            risk=options.risk,
            secrets=self._schema.secrets,
            editable=options.editable,
        )

    async def _asked(self, text: str) -> AskState:
        context = current()
        return await self._door.open().ask(self._ask(text, context), requester=context.requester)

    async def _decided(self, text: str, attempt: Attempt) -> AskState:
        return await attempt.decided(self._door.asks, self._asked(text), self._waited)

    async def _waited(self, state: AskState) -> AskState:
        """Return a request once it is decided; with `wait` in the context, or once that time is up."""
        asks, waits = self._door.asks, current().wait
        if state.status == "pending":
            state = await asks.wait(state.id, 1.0 if waits is True else float(waits))
        if state.status == "pending" and waits is True:
            announce(state, self._door.url_of(state))
        while state.status == "pending" and waits is True:
            state = await asks.wait(state.id, _PATIENCE)
        return await self._checked(state)

    async def _looked(self, id: str | Pending) -> AskState:
        return await self._door.open().get(_id_of(id))

    async def _checked(self, state: AskState) -> AskState:
        """Return a request once people are asked, or the newest policy about their decision: a worker does both."""
        ends = time.monotonic() + _CHECKED
        while _at_work(state) and time.monotonic() < ends:
            state = await self._door.asks.wait(state.id, 0.1)
        return state

    async def _to_resume(self, id: str | Pending) -> AskState:
        return self._own(await self._checked(await self._looked(id)))

    def _own(self, state: AskState) -> AskState:
        if state.tool != self.name:
            raise UserError(f"request {state.id} is a call of {state.tool!r}, and this function is {self.name!r}")
        return state

    # What is run ------------------------------------------------------------------------------------------------

    def _claimed(self, state: AskState, attempt: Attempt) -> AskState:
        """Return a request that was claimed, or that has a result."""
        if state.status in _HAS_RESULT:
            return state
        self._check_as_asked(state)
        return self._door.run(attempt.claimed(self._door.asks, state))

    async def _claimed_in_loop(self, state: AskState, attempt: Attempt) -> AskState:
        if state.status in _HAS_RESULT:
            return state
        self._check_as_asked(state)
        return await self._door.aio(attempt.claimed(self._door.asks, state))

    @contextlib.contextmanager
    def _before(self, attempt: Attempt) -> Generator[None]:
        """Leave nothing behind where an interrupt comes before the function begins."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception):
                self._door.run(attempt.given_up(self._door.asks))
            raise

    @contextlib.asynccontextmanager
    async def _before_in_loop(self, attempt: Attempt) -> AsyncGenerator[None]:
        try:
            yield
        except asyncio.CancelledError:
            await asyncio.shield(self._door.aio(attempt.given_up(self._door.asks)))
            raise

    def _run(self, state: AskState, attempt: Attempt) -> R:
        if attempt.claim is None:
            return cast("R", _recorded(state))
        with self._held(state, attempt.name) as done:
            args, kwargs = self._schema.bind(state.arguments)
            done.value = self._whole(self._function(*args, **kwargs))
        return cast("R", done.value)

    async def _run_in_loop(self, state: AskState, attempt: Attempt) -> Any:
        if attempt.claim is None:
            return _recorded(state)
        async with self._held_in_loop(state, attempt.name) as done:
            args, kwargs = self._schema.bind(state.arguments)
            made = self._function(*args, **kwargs) if self._schema.is_async else None
            if made is None:
                made = await asyncio.to_thread(self._function, *args, **kwargs)
            done.value = self._whole(await made if inspect.isawaitable(made) else made)
        return done.value

    def _whole(self, value: Any) -> Any:
        """Refuse what would run only later, when its claim is over: a coroutine, or a generator."""
        if not (inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)):
            return value
        if inspect.iscoroutine(value) or inspect.isgenerator(value):
            value.close()
        if inspect.isawaitable(value):
            raise UserError(f"{self.name} returned a {type(value).__name__}: use `await {self.name}.aio(...)`")
        raise UserError(f"{self.name} returned a generator, of which nothing ran: return the whole result")

    def _check_as_asked(self, state: AskState) -> None:
        """Refuse arguments that the function would read as others, or complete: it would run what nobody saw."""
        if state.status != "approved":
            return
        try:
            read = self._schema.freeze(state.arguments)
        except InvalidArguments as error:
            raise UserError(f"{self.name} was not run: {error}. Ask anew") from None
        if state.edited:
            if not _same_values(msgspec.json.decode(state.arguments), read.params):
                raise UserError(f"{self.name} reads the edited arguments of request {state.id} as others: ask anew")
        elif read.text != state.arguments:
            raise UserError(f"{self.name} has other parameters than when request {state.id} was made: ask anew")

    @contextlib.contextmanager
    def _held(self, state: AskState, name: str) -> Generator[_Done]:
        """Hold the claim while the function runs, and report what came of it."""
        done = _Done()
        beats = self._door.loop.begin(renewed(self._door.asks, state.id, name))
        try:
            yield done
        except BaseException as error:
            beats.cancel()
            self._door.run(reported(self._door.asks, state, name, *outcome_of(error)))
            raise
        beats.cancel()
        self._door.run(reported(self._door.asks, state, name, "succeeded", _recordable(done.value)))

    @contextlib.asynccontextmanager
    async def _held_in_loop(self, state: AskState, name: str) -> AsyncGenerator[_Done]:
        done = _Done()
        beats = self._door.loop.begin(renewed(self._door.asks, state.id, name))
        try:
            yield done
        except BaseException as error:
            beats.cancel()
            await asyncio.shield(self._door.aio(reported(self._door.asks, state, name, *outcome_of(error))))
            raise
        beats.cancel()
        ended = reported(self._door.asks, state, name, "succeeded", _recordable(done.value))
        await asyncio.shield(self._door.aio(ended))

    def _tested(self, said: str, text: str) -> R:
        """Decide as `decide_all` says."""
        if said == "reject":
            raise CallDenied(AskState(id="", key="", tool=self.name, status="rejected", reason="decide_all"))
        args, kwargs = self._schema.bind(text)
        return cast("R", self._function(*args, **kwargs))


class _Done:
    """Holds what a function returned."""

    value: Any = None


def _same_values(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; a person writes 5 for what a function reads as 5.0.

    >>> _same_values({"amount": 5}, {"amount": 5.0}), _same_values([1], [True])
    (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        here, there = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return here.keys() == there.keys() and all(_same_values(here[name], there[name]) for name in here)
    if isinstance(one, list) and isinstance(other, list):
        ours, theirs = cast("list[Any]", one), cast("list[Any]", other)
        return len(ours) == len(theirs) and all(map(_same_values, ours, theirs))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _recorded(state: AskState) -> Any:
    """Return the recorded result of a call that was run, or that a person answered in its place."""
    if state.result == _UNREADABLE:
        raise CallClaimed(state)
    return state.result


def _recordable(value: object) -> Any:
    """Return a result as it is recorded."""
    try:
        return msgspec.json.decode(msgspec.json.encode(_json_of(value)))
    except (TypeError, ValueError, RecursionError):
        return _UNREADABLE


def _json_of(value: object) -> Any:
    """Return what JSON has for a value; NaN and infinity, which would be written as null, raise `ValueError`."""
    made: Any = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
    json.dumps(made, allow_nan=False)
    return made


def _plain(value: object) -> Any:
    """Make JSON of a pydantic model; anything else is none."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__} is not JSON")
    return dump(mode="json")


def _id_of(id: str | Pending) -> str:
    return id.id if isinstance(id, Pending) else id


def _check_no_loop(name: str) -> None:
    """Refuse to block a loop that is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UserError(f"{name}(...) would block the event loop that is running here: use `await {name}.aio(...)`")


def _at_work(state: AskState) -> bool:
    """Return whether a request is pending for a worker alone: its call is not proposed yet, or was just decided."""
    decided = state.decided_at is not None and state.undo_until is None
    return state.status == "pending" and (not state.digest or decided)
