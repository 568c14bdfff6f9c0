"""Runs inside an environment, as the agent: listens on its loopback and passes bytes to and from the gateway.

Started as ``python3 -I -S -c <this file> DIRECTORY``; standard library only. A frame is connection (4 bytes), length (4
bytes), data; length 0 closes, -1 opens. Frames come in through the FIFO ``in``; each message out has a FIFO of its own,
``out.<n>``, and is one line of base64. The first frame has the port instead of
a connection.
"""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import socket
import struct
import sys
import threading

FRAME = struct.Struct(">Ii")
OPEN, CLOSE = -1, 0
CHUNK = 1 << 16
MESSAGE = 3 << 16
CONNECTIONS = 64


Connections = dict[int, socket.socket]


def main(home: str) -> None:
    """Serve until killed."""
    os.makedirs(home, mode=0o700)
    out: queue.Queue[bytes] = queue.Queue(16)
    connections: Connections = {}
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    os.mkfifo(f"{home}/in")
    os.mkfifo(f"{home}/out.0")
    out.put(FRAME.pack(port, OPEN))
    for target, arguments in ((send, (home, out)), (receive, (home, connections))):
        threading.Thread(target=target, args=arguments, daemon=True).start()
    number = 0
    while True:
        connection, _ = listener.accept()
        if len(connections) >= CONNECTIONS:
            connection.close()
            continue
        number += 1
        connections[number] = connection
        out.put(FRAME.pack(number, OPEN))
        threading.Thread(target=read, args=(number, connection, connections, out), daemon=True).start()


def read(
    number: int, connection: socket.socket, connections: dict[int, socket.socket], out: queue.Queue[bytes]
) -> None:
    """Pass on what a client sends."""
    with contextlib.suppress(OSError):
        while data := connection.recv(CHUNK):
            out.put(FRAME.pack(number, len(data)) + data)
    connections.pop(number, None)
    out.put(FRAME.pack(number, CLOSE))
    connection.close()


def send(home: str, out: queue.Queue[bytes]) -> None:
    """Hand over messages, one FIFO each; the next one exists before this one can be read."""
    number = 0
    while True:
        message = out.get()
        while len(message) < MESSAGE - CHUNK:
            try:
                message += out.get_nowait()
            except queue.Empty:
                break
        os.mkfifo(f"{home}/out.{number + 1}")
        with open(f"{home}/out.{number}", "wb") as pipe:
            pipe.write(base64.b64encode(message) + b"\n")
        os.unlink(f"{home}/out.{number}")
        number += 1


def receive(home: str, connections: Connections) -> None:
    """Give clients what comes for them."""
    with open(os.open(f"{home}/in", os.O_RDWR), "rb") as pipe:
        while True:
            number, length = FRAME.unpack(pipe.read(FRAME.size))
            data = pipe.read(length) if length else b""
            connection = connections.get(number)
            if connection is None:
                continue
            with contextlib.suppress(OSError):
                if data:
                    connection.sendall(data)
                else:
                    connection.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(sys.argv[1])
