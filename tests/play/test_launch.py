"""`setpred play` starts, or says in a line why not, and Ctrl+C ends it whatever it is doing."""

import signal
import subprocess
import sys

import pytest

from setpred.play.launch import listen

PLAY = [sys.executable, "-m", "setpred", "play", "--port", "0", "--no-browser"]


def test_what_is_no_run_is_refused_in_a_line(setpred):
    code, _, err = setpred("play", "nowhere", "--no-browser", "--port", "0")
    assert (code, err) == (2, "setpred: there is no run folder nowhere: name the folder that a training wrote\n")


def test_a_port_that_is_taken_is_told_before_anything_is_loaded():
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        command = [*PLAY, "--port", str(taken.getsockname()[1])]
        loud = subprocess.run(
            [command[0], "-X", "importtime", *command[1:]], capture_output=True, text=True, timeout=120
        )
    said = [line for line in loud.stderr.splitlines() if not line.startswith("import time:")]
    assert loud.returncode == 2
    assert len(said) == 1
    assert "choose another --port" in said[0]
    assert "torch" not in loud.stderr


# Ctrl+C in the middle of the start, exactly.
INTERRUPTED = """
import signal
import setpred.play.server as server
from setpred.play.launch import serve

server.make_app = lambda *_: signal.raise_signal(signal.SIGINT)
serve(port=0, browser=False)
"""


@pytest.mark.parametrize("moment", ["while it starts", "while it warms up"])
def test_ctrl_c_ends_it_without_a_word(moment):
    starts = moment == "while it starts"
    command = [sys.executable, "-c", INTERRUPTED] if starts else PLAY
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if not starts:
            assert process.stdout is not None
            assert "stop with Ctrl+C" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert err == ""
    assert process.returncode == -signal.SIGINT
