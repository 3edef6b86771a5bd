"""Servers that do what they like: each connection is given to a function with its raw socket and the request."""

import contextlib
import socket
import threading


class Hostile:
    """Listens on loopback; answer(connection, request, n) for the nth connection, in a thread of its own. `reads` is whether a
    request is read before."""

    def __init__(self, answer, reads=True):
        self.answer = answer
        self.reads = reads
        self.requests = []
        self.stopping = threading.Event()  # answers that never end wait for it
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection, len(self.threads) - 1), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection, n):
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = read_request(connection) if self.reads else b""
            self.requests.append(request)
            self.answer(connection, request, n)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(20)


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body


def head(status="200 OK", content_type="text/event-stream", *more):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Connection: close", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
