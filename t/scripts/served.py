# SPDX-License-Identifier: LGPL-3.0-only
"""Runs the commands of mf.py for one test script, each in a fork of a process that has imported Flux already: a test calls dozens of
them, and a third of the processor time of all of them together went into starting Python.

usage: flux python served.py SOCKET PID      (by t/lib.sh; it ends when process PID has)

What asks.py sends is the command's arguments, directory and environment, and with them its standard files; what it is told is the
status the command ended with. Nothing is kept from one command to the next.
"""
import contextlib
import gc
import os
import signal
import socket
import sys
import traceback

import mf

with contextlib.suppress(ImportError):  # a Flux without it signs nothing; whoever submits there is told
    import flux.security  # noqa: F401


def status(run, argv):
    """The exit status of a command, as Python gives one."""
    try:
        run(argv)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # whatever it is, a command that it ends has failed
        traceback.print_exc()
        return 1
    return 0


def serve(connection):
    """One command, in a process of its own."""
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while more := connection.recv(1 << 20):
        text += more
    count, *words = text.split(b"\0")
    argv, (directory, *environment) = words[: int(count)], words[int(count) :]
    for fd, file in enumerate(files):
        os.dup2(file, fd)
        os.close(file)
    os.chdir(directory)
    os.environb.clear()
    os.environb.update(line.split(b"=", 1) for line in environment)
    ended = status(mf.main, [os.fsdecode(word) for word in argv])
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(b"%d" % ended)


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main():
    path, starter = sys.argv[1], int(sys.argv[2])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path + ".part")
    listener.listen(64)
    os.rename(path + ".part", path)
    listener.settimeout(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    gc.freeze()  # what is there now a fork need not look at, and so not copy
    while lives(starter):
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            connection.settimeout(None)
            serve(connection)
            os._exit(0)
        connection.close()
    os.unlink(path)


main()
