"""Runs inside an environment, as the agent: listens on its loopback and passes bytes to and from the gateway.

Started as ``python3 -I -S -c <this file>``; standard library only. Frames come in through stdin and go out through
stdout: connection (4 bytes), length (4 bytes), data; length 0 closes, -1 opens. The first frame out has the port
instead of a connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading

FRAME = struct.Struct(">Ii")
OPEN, CLOSE = -1, 0
CHUNK = 1 << 16
CONNECTIONS = 64

Connections = dict[int, socket.socket]

_writing = threading.Lock()


def main() -> None:
    """Serve until killed."""
    connections: Connections = {}
    listener = socket.create_server(("127.0.0.1", 0))
    send(listener.getsockname()[1], OPEN)
    threading.Thread(target=receive, args=(connections,), daemon=True).start()
    number = 0
    while True:
        connection, _ = listener.accept()
        if len(connections) >= CONNECTIONS:
            connection.close()
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        connections[number] = connection
        send(number, OPEN)
        threading.Thread(target=read, args=(number, connection, connections), daemon=True).start()


def send(number: int, length: int, data: bytes = b"") -> None:
    """Pass on a frame."""
    with _writing:
        sys.stdout.buffer.write(FRAME.pack(number, length) + data)
        sys.stdout.buffer.flush()


def read(number: int, connection: socket.socket, connections: Connections) -> None:
    """Pass on what a client sends."""
    with contextlib.suppress(OSError):
        while data := connection.recv(CHUNK):
            send(number, len(data), data)
    connections.pop(number, None)
    send(number, CLOSE)
    connection.close()


def receive(connections: Connections) -> None:
    """Give clients what comes for them."""
    while header := sys.stdin.buffer.read(FRAME.size):
        number, length = FRAME.unpack(header)
        data = sys.stdin.buffer.read(length)
        connection = connections.get(number)
        if connection is None:
            continue
        with contextlib.suppress(OSError):
            if data:
                connection.sendall(data)
            else:
                connection.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
