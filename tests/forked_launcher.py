"""Starts a program of `tests.forked` for somebody who can only start a command; it is as long as the program is."""

import json
import os
import signal
import socket
import sys

line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
job = {"words": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ), "session": False, "terminal": False}
socket.send_fds(line, [json.dumps({**job, "preload": []}).encode()], [0, 1, 2])
pid = int(line.recv(64))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda given, _frame: os.kill(pid, given))
for number in (0, 1):
    os.close(number)  # they are the program's: whoever reads them waits for its end, and not for ours
code = int(line.recv(64) or -9)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
