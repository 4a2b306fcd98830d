# SPDX-License-Identifier: LGPL-3.0-only
"""Sends a command of mf.py to served.py. usage: python3 -IS asks.py SOCKET ARGUMENT...

With -IS, and with _socket instead of socket, Python starts in a tenth of the time. The tests start it thousands of times.
"""
import _socket
import os
import sys

words = [os.fsencode(word) for word in sys.argv[2:]]
environment = [key + b"=" + value for key, value in os.environb.items()]
request = b"\0".join([b"%d" % len(words), *words, os.fsencode(os.getcwd()), *environment])
standard_files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(sys.argv[1])
sent = server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, standard_files)])
server.sendall(request[sent:])
server.shutdown(_socket.SHUT_WR)
ended = server.recv(16)
sys.exit(int(ended) if ended else "mf: it came to no end")
