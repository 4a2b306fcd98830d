# SPDX-License-Identifier: LGPL-3.0-only
"""Sends a command of mf.py to served.py. usage: python3 -IS asks.py SOCKET ARGUMENT...   (with -IS Python starts in a tenth of the time)"""
import os
import socket
import sys

words = [os.fsencode(word) for word in sys.argv[2:]]
environment = [key + b"=" + value for key, value in os.environb.items()]
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.connect(sys.argv[1])
request = b"\0".join([b"%d" % len(words), *words, os.fsencode(os.getcwd()), *environment])
sent = socket.send_fds(server, [request], [0, 1, 2])
server.sendall(request[sent:])
server.shutdown(socket.SHUT_WR)
ended = server.recv(16)
sys.exit(int(ended) if ended else "mf: it came to no end")
