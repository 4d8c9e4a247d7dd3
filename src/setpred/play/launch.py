"""Open the playground: one process, one port, loopback by default."""

import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[", "[::1]")  # the middleware cuts [::1]:8123 at its first colon


def serve(runs: Sequence[Path] = (), host: str = "127.0.0.1", port: int = 8123, browser: bool = True) -> None:
    """Serve until interrupted."""
    with listen(host, port) as listener, _ended_by_interrupts():  # a port that is taken is reported at once
        try:
            import torch
            import uvicorn

            from .server import configured, make_app
        except ImportError as error:
            raise UsageError(f"the playground needs {error.name}: pip install 'setpred[play]'") from None
        if "OMP_NUM_THREADS" not in os.environ:  # one set is too small to share out: threads would wait for each other
            torch.set_num_threads(1)
        app = make_app(runs, LOOPBACK_NAMES if host in LOOPBACK else ("*",))
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        print(f"setpred playground: {address} (stop with Ctrl+C)", flush=True)
        if browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        uvicorn.Server(configured(app)).run([listener])


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl+C end the process at once.

    Raising KeyboardInterrupt while modules are loaded ends in tracebacks of hundreds of lines, and unwinding Python
    while a thread is in compiled code in an abort. Nothing here needs cleaning up.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}, port {port} ({error}): choose another --port or --host") from None
    return listener
