# SPDX-License-Identifier: LGPL-3.0-only
"""Runs the commands of mf.py for one test script, each in a fork of this process, which has imported Flux already. A test runs dozens of
commands, and starting Python for each took a third of the processor time of all tests.

usage: flux python served.py SOCKET PID      (started by t/lib.sh; ends with process PID)

asks.py sends arguments, directory, environment and standard files of a command, and receives its exit status. Commands share no state.
"""
import contextlib
import gc
import os
import signal
import socket
import sys
import traceback

import mf

with contextlib.suppress(ImportError):  # a Flux without flux-security cannot sign, which a submission reports
    import flux.security  # noqa: F401


def run_for_status(run, argv):
    """Returns the exit status that Python would give a command."""
    try:
        run(argv)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # any exception makes the command fail
        traceback.print_exc()
        return 1
    return 0


def serve_connection(connection):
    """Runs one command in a process of its own."""
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
    ended = run_for_status(mf.main, [os.fsdecode(word) for word in argv])
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(b"%d" % ended)


def is_alive(pid):
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
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended children
    gc.freeze()  # garbage collection in a fork does not touch, and so not copy, the present objects
    while is_alive(starter):
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            connection.settimeout(None)
            serve_connection(connection)
            os._exit(0)
        connection.close()
    os.unlink(path)


main()
