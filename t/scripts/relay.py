#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""A faulty connection between a Flux client and its broker.

  relay.py SOCKET [--cut N | --stall N | --stall-at SERVICE] [--rename OLD NEW] [--empty-list]

Listens on SOCKET and forwards messages to the broker of FLUX_URI and back, for one client at a time. --cut closes the connection after N
answers, as when the broker dies. --stall forwards no answer after the first N, and creates the file SOCKET.stalled. --stall-at does so from the first request to
SERVICE on. --rename replaces the
name of a service in requests by a name of the same length. With --empty-list, no job has ended: a request for all jobs becomes a request
for jobs since the year 2255.
"""
import argparse
import os
import socket
import struct
import threading


def receive_bytes(stream, count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def receive_frames(stream):
    """Receives one message in flux-core's framing: magic, size in network order, message."""
    while True:
        head = receive_bytes(stream, 8)
        yield head + receive_bytes(stream, struct.unpack("!I", head[4:])[0])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("socket")
    p.add_argument("--cut", type=int)
    p.add_argument("--stall", type=int)
    p.add_argument("--stall-at")
    p.add_argument("--rename", nargs=2)
    p.add_argument("--empty-list", action="store_true")
    o = p.parse_args()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(o.socket)
    listener.listen()
    while True:
        client, _ = listener.accept()
        broker = socket.socket(socket.AF_UNIX)
        is_stalled = threading.Event()
        broker.connect(os.environ["FLUX_URI"].partition("://")[2])

        def stall():
            open(o.socket + ".stalled", "w", encoding="ascii").close()

        def relay_requests(client=client, broker=broker, is_stalled=is_stalled):
            try:
                for frame in receive_frames(client):
                    if o.rename:
                        old, new = (name.encode() for name in o.rename)
                        assert len(old) == len(new)
                        frame = frame.replace(old, new)
                    if o.empty_list:
                        frame = frame.replace(b'"since":0.0', b'"since":9e9')
                        assert b"job-list" not in frame or b"9e9" in frame
                    if o.stall_at and o.stall_at.encode() in frame:
                        is_stalled.set()
                        stall()
                    broker.sendall(frame)
            except (EOFError, OSError):
                broker.close()

        thread = threading.Thread(target=relay_requests, daemon=True)
        try:
            client.sendall(receive_bytes(broker, 1))  # the broker accepts the client
            thread.start()
            for count, frame in enumerate(receive_frames(broker)):
                if count == o.stall:
                    stall()
                    thread.join()
                if is_stalled.is_set():
                    thread.join()
                if count == o.cut:
                    break
                client.sendall(frame)
        except (EOFError, OSError):
            pass
        for end in (client, broker):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


if __name__ == "__main__":
    main()
