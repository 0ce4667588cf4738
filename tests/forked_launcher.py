"""Starts a program of `tests.forked` for somebody who can only start a command; it is as long as the program is."""

import json
import os
import signal
import socket
import sys

words = sys.argv[2:]
kind = "".join(words[words[:1] == ["-P"] :][:1])
if not kind or (kind.startswith("-") and kind not in ("-c", "-m")):
    os.execv(sys.executable, [sys.executable, *words])
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
job = {"words": words, "cwd": os.getcwd(), "env": dict(os.environ), "session": False, "terminal": False}
socket.send_fds(line, [json.dumps({**job, "preload": [], "executable": None}).encode()], [0, 1, 2])
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
