"""Makes shops: a process that has imported all that a shop needs, and forks one whenever it is told to.

`python shops.py NUMBER` of a socket. Each message names a transport and the directory SHOP, and brings the open socket
of the server with it; the answer is the number of the new process. It ends, and its shops with it, when nobody is left.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

os.environ.setdefault("SHOP", os.devnull)

import shop
import uvicorn  # noqa: F401  # imported once here, and in no shop

from trials.forks import ends_with


def main(told: socket.socket) -> None:
    """Fork a shop for each message."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    parent = os.getpid()
    while True:
        words, given, _flags, _address = socket.recv_fds(told, 4096, 1)
        if not words:
            return
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ends_with(parent)
            told.close()
            transport, _, directory = words.decode().partition(" ")
            os.environ["SHOP"] = directory
            shop.SHOP = Path(directory)
            sys.argv = ["shop.py", transport, str(given[0])]
            shop.main()
            os._exit(0)
        os.close(given[0])
        told.send(str(child).encode())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
