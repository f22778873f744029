"""A TCP proxy that can drop its connections after so many bytes, and accepts no others until it is resumed."""

import socket
import threading


class Proxy:
    """Passes bytes on to a port of this machine."""

    def __init__(self, target):
        self.target = target
        self.left = None  # bytes until all connections are dropped
        self.passed = 0  # bytes sent to the target
        self.open = []
        self.is_down = False
        self.is_silent = False
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_after(self, sent):
        """Drop all connections once so many bytes more were sent to the target."""
        self.left = sent

    def hang(self):
        """Pass no more bytes on, and keep all connections."""
        self.is_silent = True

    def resume(self):
        """Work again."""
        self.left = None
        self.is_down = False
        self.is_silent = False

    def close(self):
        self.listener.close()
        self._drop()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            self.open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink, sink is server), daemon=True).start()

    def _pass(self, source, sink, is_sent):
        while True:
            try:
                content = source.recv(4096)
                if not content:
                    raise OSError
                if self.is_silent:
                    continue
                with self.lock:
                    if is_sent:
                        self.passed += len(content)
                        if self.left is not None:
                            self.left -= len(content)
                if self.left is not None and self.left < 0:
                    self.is_down = True
                    self._drop()
                    return
                sink.sendall(content)
            except OSError:
                source.close()
                sink.close()
                return

    def _drop(self):
        for connection in self.open:
            connection.close()
        self.open = []
