#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Acts as systemd: notices.py SOCKET FILE writes each notice that SOCKET receives to FILE, one a line."""
import socket
import sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
with open(sys.argv[2], "w", encoding="utf-8", buffering=1) as out:
    while True:
        print(listener.recv(65536).decode().strip(), file=out)
