"""A request's cost is bounded before it is parsed: a real server on this machine, and visitors who ask for too much."""

import contextlib
import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
import uvicorn

from setpred.errors import UsageError
from setpred.play import limits
from setpred.play import server as playground
from setpred.play.launch import listen
from setpred.play.server import configured, make_app

SOON = 20.0
"""Seconds, on a machine that has other things to do."""


@contextlib.contextmanager
def serving():
    """The address of a playground."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(configured(make_app()))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address():
    with serving() as address:
        yield address


def post(address, path, content):
    return httpx2.post(f"http://{address[0]}:{address[1]}{path}", content=content, timeout=60)


def is_answered(address):
    """Whether a visitor gets the page soon."""
    try:
        return httpx2.get(f"http://{address[0]}:{address[1]}/", timeout=SOON).status_code == 200
    except httpx2.TransportError:
        return False


def is_closed(connection):
    """Whether the server has closed a connection on which it has sent nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def wait_for(condition):
    until = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_body_of_megabytes_is_refused_unread(address):
    answer = post(address, "/api/about", b"x" * 7_600_000)
    assert answer.status_code == 413
    assert answer.json()["error"] == "this is more than 64 kB: send less"


def test_while_a_picture_is_read_others_are_answered(address, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def read_slowly(content, steps):
        begun.set()
        go_on.wait()
        raise UsageError("slow")

    monkeypatch.setattr(playground, "uploaded_scene", read_slowly)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(post, address, "/api/scenes", b"x")
        try:
            assert begun.wait(SOON)
            assert is_answered(address)
        finally:
            go_on.set()
        assert slow.result().json() == {"error": "slow"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 60_000, id="brackets"),
        pytest.param(b"\xff" * 60_000, id="no text"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_an_error_is_a_short_line_whatever_was_sent(address, body):
    answer = post(address, "/api/scenes", body)
    assert answer.status_code == 400
    assert len(answer.content) < 1000
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/api/runs/{}/0", "/api/runs/0/{}", "/api/scenes/{}", "/{}", "/api/scenes/0?steps={}"]
)
def test_an_address_is_not_echoed(address, path):
    answer = httpx2.get(f"http://{address[0]}:{address[1]}{path.format('9' * 4000)}", timeout=60)
    assert answer.status_code in (400, 404)
    assert len(answer.content) < 1000


def test_what_visitors_do_wrong_prints_nothing(capfd):
    with serving() as address:  # not that of the other tests, which logs where nobody looks during a test
        head = f"POST /api/scenes HTTP/1.1\r\nHost: {address[0]}\r\nContent-Length: 1000000\r\n\r\n".encode()
        upgrade = f"GET / HTTP/1.1\r\nHost: {address[0]}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
        for sent in (head, head + b"x" * 100_000, b"NONSENSE\r\n\r\n", upgrade):
            with socket.create_connection(address) as connection:
                connection.sendall(sent)
                time.sleep(0.1)
        assert is_answered(address)
        time.sleep(0.2)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_what_goes_wrong_here_is_printed(capfd, monkeypatch):
    def fail(content, steps):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(playground, "uploaded_scene", fail)
    with serving() as address:
        assert post(address, "/api/scenes", b"x").status_code == 500
    assert "a mistake" in capfd.readouterr().err


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_half_open_connections_shut_nobody_out(address, monkeypatch, sent):
    monkeypatch.setattr(limits, "CONNECTIONS", 40)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(120)]
        for connection in silent:
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
        assert is_answered(address)
        wait_for(lambda: sum(not is_closed(connection) for connection in silent) <= 40)
        assert is_answered(address)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("", id="nothing"),
        pytest.param("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", id="headers"),
        pytest.param("POST /api/about HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n", id="body"),
        pytest.param("POST /api/scenes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n", id="upload"),
    ],
)
def test_a_request_that_does_not_end_is_ended(address, monkeypatch, head):
    monkeypatch.setattr(limits, "READ_SECONDS", 0.5)
    with socket.create_connection(address) as connection:
        connection.sendall(head.encode())
        begun = time.monotonic()
        while not is_closed(connection):  # each byte shows that someone is there
            assert time.monotonic() - begun < SOON
            if head:
                with contextlib.suppress(ConnectionError):
                    connection.send(b"x")
            time.sleep(0.05)
    assert time.monotonic() - begun > 0.4


def test_an_answer_that_is_not_read_is_dropped(address, monkeypatch):
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.5)
    request = f"GET /app.js HTTP/1.1\r\nHost: {address[0]}\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        connection.settimeout(SOON)
        with contextlib.suppress(ConnectionError):  # a TimeoutError would mean that nobody ends this
            while True:
                connection.sendall(request * 100)


def test_so_many_pictures_at_a_time(address, monkeypatch):
    monkeypatch.setattr(limits, "UPLOADS", 3)
    head = f"POST /api/scenes HTTP/1.1\r\nHost: {address[0]}\r\nContent-Length: 1000000\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(address)).sendall(head)
        wait_for(lambda: post(address, "/api/scenes", b"x").status_code == 503)
        assert is_answered(address)
    wait_for(lambda: post(address, "/api/scenes", b"x").status_code == 400)


def test_one_connection_serves_many_requests(address, monkeypatch):
    monkeypatch.setattr(limits, "READ_SECONDS", 1.0)

    visitor = http.client.HTTPConnection(*address, timeout=60)
    visitor.connect()
    first = visitor.sock
    for _ in range(4):
        visitor.request("GET", "/")
        assert visitor.getresponse().read()
        assert visitor.sock is first
        time.sleep(0.5)
    visitor.close()
