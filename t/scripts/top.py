#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Runs "flux fairshare top" in a pseudo-terminal of 80 by 24, and compares its screens.

usage: top.py SCREENS            inside an instance; UPDATE_GOLDEN=1 rewrites the file of screens, which must then be reviewed
       top.py --silence PLUGIN   removes the plugin and loads it again, and checks what the screen says about it
       top.py                    checks whether the terminal is available

The terminal is pyte, which is installed from PyPI into a directory of its own if it is missing. Numbers, ids and times are
masked and blanks squeezed, so that only the words and their places are compared.
"""
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import fcntl

import pypi

COLUMNS, ROWS = 80, 24


class Top:
    def __init__(self, pyte, delay="60s", **environment):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        pid, self.tty = pty.fork()
        if pid == 0:
            os.environ.update(environment, TERM="xterm-256color", LC_ALL="C.UTF-8", TZ="UTC")
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
            os.execvp("flux", ["flux", "fairshare", "top", "--delay", delay])
        self.pid = pid
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read_until(self, wanted, patience=30, gone=False):
        """Reads until the text is on the screen, or is gone from it, and no output follows."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            waits = select.select([self.tty], [], [], 0.4)[0]
            if not waits and (wanted in "\n".join(self.screen.display)) != gone:
                return
            if waits:
                try:
                    data = os.read(self.tty, 65536)
                except OSError:
                    break
                self.raw += data
                self.stream.feed(data)
        raise SystemExit(f"{'still' if gone else 'no'} {wanted!r} on the screen:\n" + "\n".join(self.screen.display))

    def press(self, keys, wanted):
        os.write(self.tty, keys.encode())
        self.read_until(wanted)
        return [line.rstrip() for line in self.screen.display]

    def leave(self):
        os.write(self.tty, b"q")
        try:
            while data := os.read(self.tty, 65536):
                self.raw += data
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def mask_numbers(lines):
    text = re.sub(r"ƒ[1-9A-Za-z]+", "JOB", "\n".join(lines))
    text = re.sub(r"\d[\d.,:]*", "#", text)
    text = re.sub(r"# (second|minute|hour|day)s?\b", "# times", text)
    return re.sub(r" {2,}", " ", text)


def join_lines(lines):
    """Returns the beginning of the screen as one line, because line breaks depend on the length of numbers."""
    return re.sub(r"# (second|minute|hour|day)s?\b", "# times", re.sub(r"\s+", " ", mask_numbers(lines)))[:420]


def check_silence(pyte, plugin):
    """Checks that the screen says that the plugin does not answer, still obeys keys, and recovers."""
    top = Top(pyte, delay="2s", NO_COLOR="1")
    top.read_until("? help")
    top.press("p", "paused")
    subprocess.run(["flux", "jobtap", "remove", "mf_priority.so"], check=True)
    time.sleep(5)
    top.read_until("paused")
    assert "No answer" not in "\n".join(top.screen.display), "a paused screen sends requests"
    top.press("p", "No answer from the plugin for")
    assert "no fair-share plugin is loaded" in "\n".join(top.screen.display)
    top.press("2", "FairShare")
    subprocess.run(["flux", "jobtap", "load", plugin], check=True)
    top.read_until("No answer", gone=True)
    # A stopped broker sends no error. `top` must notice that no answer comes.
    broker = int(subprocess.run(["flux", "getattr", "broker.pid"], check=True, capture_output=True, text=True).stdout)
    os.kill(broker, signal.SIGSTOP)
    try:
        top.read_until("No answer from the plugin for")
        top.press("1", "Used|Share")
    finally:
        os.kill(broker, signal.SIGCONT)
    top.read_until("No answer", gone=True)
    assert top.leave() == 0


def main():
    pyte = pypi.get("pyte", "pyte", "terminal")
    if pyte is None or len(sys.argv) == 1:
        sys.exit(pyte is None)
    if sys.argv[1] == "--silence":
        return check_silence(pyte, sys.argv[2])
    screens = []
    for who, environment in (("owner", {}), ("5002", {"FLUX_HANDLE_USERID": "5002", "FLUX_HANDLE_ROLEMASK": "0x2"})):
        top = Top(pyte, NO_COLOR="1", **environment)
        top.read_until("? help")
        for keys, wanted in (
            ("", "Held by a limit" if who == "owner" else "held"),
            ("\t", "FairShare"),
            ("3", "Enter why"),
            ("s", "by User"),
            ("/running\r", 'only "running"'),
            ("\x1b", "by User"),
            ("\r", "node, 1 core"),
            ("q", "Enter why"),
            ("?", "this help"),
        ):
            shown = top.press(keys, wanted)
            assert len(shown) == ROWS and all(len(line) <= COLUMNS for line in shown)
            text = join_lines(shown) if keys == "\r" else mask_numbers(shown)
            screens.append(f"===== {who}: {keys!r}\n{text}")
        os.write(top.tty, b"q")
        top.read_until("Enter why")
        assert top.leave() == 0
        # top prints no colours, and restores the screen and the cursor of the terminal at its end.
        assert not re.search(rb"\x1b\[(?:\d+;)*(?:3[0-79]|4[0-7]|38|48)[;m]", top.raw.replace(b"\x1b[39m", b"").replace(b"\x1b[49m", b"")), "colours"
        assert b"\x1b[?1049h" in top.raw and top.raw.rindex(b"\x1b[?1049l") > top.raw.rindex(b"\x1b[?1049h")
        assert top.raw.rindex(b"\x1b[?25h") > top.raw.rindex(b"\x1b[?25l")
        assert b"\x1b[31mil" not in top.raw
    text = "\n".join(screens) + "\n"
    golden = pathlib.Path(sys.argv[1])
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    if not golden.exists() or golden.read_text() != text:
        print(text)
        sys.exit(f"{golden.name} is another; UPDATE_GOLDEN=1 rewrites it")


main()
