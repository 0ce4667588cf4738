"""The filter of sockets, run as the kernel runs it: which calls it lets pass, on every machine that it knows."""

from __future__ import annotations

import struct

import pytest

from keyturn.tools.processes.socket_filter import REFUSED, socket_filter

NUMBERS = {"x86_64": (0xC000003E, 41, 53, 0), "aarch64": (0xC00000B7, 198, 199, 63)}
PASS, NO_CALL, NO_FAMILY = 0x7FFF0000, 0x00050026, 0x00050061
CLOEXEC = 0o2000000


def verdict(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a classic BPF program answers; it must end, and only ever jump forwards."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("<HBBI", code))
    place = held = 0
    while True:
        operation, yes, no, value = steps[place]
        place += 1
        if operation == 0x20:
            held = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x54:
            held &= value
        elif operation == 0x15:
            place += yes if held == value else no
        elif operation == 0x35:
            place += yes if held >= value else no
        else:
            assert operation == 0x06
            return value


@pytest.mark.parametrize("machine", NUMBERS)
def test_only_sockets_of_the_namespace_are_opened(machine: str) -> None:
    """M8: a family that a network namespace does not hold is refused, and a pair that could be pointed elsewhere."""
    code, opened = socket_filter(machine=machine), socket_filter(unix=True, machine=machine)
    assert code is not None
    assert opened is not None
    audit, new, pair, other = NUMBERS[machine]
    high = 1 << 32  # the kernel reads an int: what stands above it is nothing
    for number, arguments, wanted in (
        *((new, (family, 1), PASS) for family in (2, 10, 16)),
        *((new, (family, 1), NO_FAMILY) for family in (0, 1, 3, 17, 38, 40, 255, 1 | high)),
        (new, (2 | high, 2), PASS),
        (new, (1, 1 | CLOEXEC), NO_FAMILY),
        *((pair, (1, kind), PASS) for kind in (1, 5, 1 | CLOEXEC, 5 | 0o4000, 1 | high)),
        *((pair, (1, kind), NO_FAMILY) for kind in (0, 2, 3, 2 | CLOEXEC, 4, 10)),
        *((pair, (family, 1), NO_FAMILY) for family in (0, 2, 30, 40)),
        *((number, (), NO_CALL) for number in (425, 426, 427)),
        *((number | 0x40000000, (1, 1), NO_CALL) for number in (new, pair, other)),
        (0xFFFFFFFF, (), NO_CALL),
        *((number, (1, 1), PASS) for number in (other, 59, 221, 424)),
    ):
        assert verdict(code, audit, number, *arguments) == wanted, (number, arguments)
    for foreign in {0x40000003, 0x40000028, *(each[0] for each in NUMBERS.values())} - {audit}:
        assert verdict(code, foreign, other) == NO_CALL
    assert verdict(opened, audit, new, 1, 1) == PASS
    assert verdict(opened, audit, pair, 1, 2) == PASS
    assert verdict(opened, audit, new, 40, 1) == NO_FAMILY
    assert len(code) < 8 * 4096


@pytest.mark.parametrize(("place", "machine"), list(enumerate(NUMBERS)))
def test_what_no_namespace_holds_is_answered_as_by_a_kernel_without_it(place: int, machine: str) -> None:
    """Keys, programs in the kernel, its log, file handles, mounts and namespaces, with sockets of paths or without."""
    audit = NUMBERS[machine][0]
    for code in (socket_filter(machine=machine), socket_filter(unix=True, machine=machine)):
        assert code is not None
        for number in (*(each[place] for each in REFUSED.values()), 428, 429, 430, 431, 432, 433, 442, 443, 467):
            assert verdict(code, audit, number) == NO_CALL, number
    assert {"add_key", "request_key", "keyctl", "bpf", "setns", "open_by_handle_at"} <= set(REFUSED)
    for numbers in zip(*REFUSED.values(), strict=True):
        assert len(set(numbers)) == len(numbers)


def test_a_machine_that_nobody_knows_has_no_filter() -> None:
    assert socket_filter(machine="vax") is None
