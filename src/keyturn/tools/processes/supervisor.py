"""The supervisor of one command: a small process that starts it and leaves nothing of it behind.

It runs as a script of its own and imports nothing of ours, and little of Python's: one is started for each command, and
`socket`, `signal` and `contextlib` took half of that time. A command may fork, leave its session or ignore SIGTERM:
on Linux whatever it started falls to the keeper, which ends all of it when the command ends, when it is told
to, and when whoever started it is gone. Elsewhere it ends the command's process group.
"""

from __future__ import annotations

import os
import select
import sys
import time

_signal = __import__("_signal")  # what `signal` stands on, without enumerations
OWN_KEYRING = "--own-keyring"  # in front of a command: it gets a session keyring of its own
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, see prctl(2)
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1  # see keyctl(2)
_PATIENCE = 5.0  # how long killing is tried; a process that is still there then cannot be killed
_TICK = 0.02


def main(arguments: list[str]) -> None:
    """Run `arguments[2:]`; `arguments[0]` is the channel to whoever started this, `arguments[1]` the time to end in."""
    channel = int(arguments[0])
    os.set_inheritable(channel, False)
    adopts = _adopt_orphans()
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    _signal.set_wakeup_fd(wakes)
    _signal.signal(_signal.SIGCHLD, _wake)
    child = _start(arguments[2:], channel)
    statuses: dict[int, int] = {}
    while child not in statuses:
        ready, _, _ = select.select([channel, woken], [], [])
        if channel in ready:  # a word to stop, or nobody there any more
            break
        _drain(woken)
        _reap(statuses)
    found, left = _end(None if adopts else child, float(arguments[1]), statuses)
    try:
        _say(channel, f"ended {statuses.get(child, -_signal.SIGKILL)} {found} {left}\n")
    except OSError:  # whoever wanted to know may be gone
        return


def _wake(_number: int, _frame: object) -> None:
    """Do nothing on SIGCHLD: that it came is read from the pipe of wake-ups."""


def _say(channel: int, line: str) -> None:
    left = line.encode()
    while left:
        left = left[os.write(channel, left) :]


def _adopt_orphans() -> bool:
    """Make this process a subreaper, which adopts orphans below it; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # here, because only Linux has a use for it

    return ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) == 0


def _start(command: list[str], channel: int) -> int:
    """Start the command once its group can be ended by others: it may kill this process at once."""
    ready, says = os.pipe()
    waits, goes = os.pipe()
    child = os.fork()
    if child:
        os.close(says)
        os.close(waits)
        os.read(ready, 1)  # before it has a session of its own, nobody could end it by that
        _say(channel, f"started {child}\n")
        os.write(goes, b".")
        os.close(ready)
        os.close(goes)
        return child
    try:
        os.close(goes)
        os.setsid()
        if command[0] == OWN_KEYRING:
            command = command[1:]
            _leave_keyring()
        os.write(says, b".")
        if not os.read(waits, 1):  # nobody is there to keep it
            os._exit(127)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores them, and a program expects that nobody does
            _signal.signal(number, _signal.SIG_DFL)
        os.execve(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _leave_keyring() -> None:
    """Leave the keys of the user's session behind; where keys cannot be reached at all, there is nothing to leave."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None and sys.platform.startswith("linux"):
        import ctypes  # here, because only Linux has a use for it

        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)


def _drain(woken: int) -> None:
    try:
        while os.read(woken, 512):
            pass
    except BlockingIOError:
        pass


def _reap(statuses: dict[int, int]) -> bool:
    """Reap every child that has ended, whoever's child it was at first; return whether one is left."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not ended:
            return True
        statuses[ended] = os.waitstatus_to_exitcode(status)


def _alive(group: int | None) -> list[int]:
    """Return what is there of a group, or of all that this process adopts."""
    return descendants() if group is None else _group(group)


def _end(group: int | None, grace: float, statuses: dict[int, int]) -> tuple[int, int]:
    """End what is there, SIGTERM first; return how many there were, and how many would not go."""
    if not _reap(statuses) and group is None:  # what had no parent would be a child of this process
        return 0, 0
    if _alive(group):  # what is on its way out needs no ending: the end of a pipe, the inside of a sandbox
        time.sleep(_TICK)
    found = _alive(group)
    there = len(found) or _left(group, statuses)
    if not there:
        _reap(statuses)
        return 0, 0
    _tell(found, _signal.SIGTERM)
    _wait(group, grace, statuses, kills=False)
    _wait(group, _PATIENCE, statuses, kills=True)
    return there, _left(group, statuses)


def _left(group: int | None, statuses: dict[int, int]) -> int:
    """Return how many are left: only that nothing is left to wait for says that none is, since a list may miss some."""
    waits = _reap(statuses)
    left = len(_alive(group))
    return max(left, 1) if group is None and waits else left


def _wait(group: int | None, seconds: float, statuses: dict[int, int], *, kills: bool) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        waits = _reap(statuses)
        if kills and group is None:
            _kill(_children())  # before all are listed, which takes longer than the life of what forks and is gone
        left = _alive(group)
        if not left and not (group is None and waits):
            return
        if not kills:
            time.sleep(_TICK)
            continue
        refused = _kill(left)
        if left and refused == len(left):  # they are another user's, and time will not change that
            return
        time.sleep(0 if refused == 0 else _TICK)


def _children() -> list[int]:
    """Return the children of this process, where the kernel lists them at once; some may be missed."""
    keeper = os.getpid()
    try:
        with open(f"/proc/{keeper}/task/{keeper}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _kill(processes: list[int]) -> int:
    """Stop each and kill it, so that what forks faster than it can be killed does not win; return how many may not."""
    refused = _tell(processes, _signal.SIGSTOP)
    _tell(processes, _signal.SIGKILL)
    return refused


def _tell(processes: list[int], number: int) -> int:
    """Send a signal to each; return how many may not be signalled."""
    refused = 0
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            refused += 1
    return refused


def _group(leader: int) -> list[int]:
    """Return the command's process group as one, where its descendants cannot be listed."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [-leader]


def end_below(keeper: int, seconds: float) -> None:
    """End everything below a supervisor that cannot do so itself because a command stopped it.

    While the keeper is there, stopped or not, what loses its parent still falls to it.
    """
    until = time.monotonic() + seconds
    while sys.platform.startswith("linux") and time.monotonic() < until:
        left = descendants(keeper)
        if not left:
            return
        _tell(left, _signal.SIGSTOP)
        _tell(left, _signal.SIGKILL)
        time.sleep(_TICK)


def descendants(of: int | None = None) -> list[int]:
    """Return every living process below one, this one by default.

    >>> os.getpid() in descendants(os.getppid())
    True
    """
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):  # it is gone already
            continue
        children.setdefault(int(parent), []).append(int(entry) if state != b"Z" else -int(entry))
    found, open_ = list[int](), [os.getpid() if of is None else of]
    while open_:
        for child in children.get(abs(open_.pop()), []):
            open_.append(child)
            if child > 0:  # a dead one still leads to what it started, and needs no killing
                found.append(child)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
