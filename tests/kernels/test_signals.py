"""Compiled loops let signals through: who asks a long computation to end does not wait for its end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = """
import gc, signal, sys, time, torch
import setpred as sp
from setpred.matching import assign

def leave(*_):
    sys.exit(3)

signal.signal(signal.SIGTERM, leave)  # as Lightning does
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background processes ignore
torch.set_num_threads(int(sys.argv[2]))
places = torch.arange(3000.0)
# Products of places are the longest way for a match: each row has to oust all others.
works = {
    "match": lambda: assign((places[:, None] * places).expand(2, -1, -1)),
    "differences": lambda: sp.chamfer_loss(torch.zeros(4, 6000, 8), torch.zeros(4, 6000, 8)),
    "sort": lambda: sp.FSPool(256, 8)(torch.randn(1, 3000, 256).expand(60, -1, -1)),
    "descent": lambda: sp.iDSPN(sp.SetEncoder(2, 256, 256, 2000), solver=sp.Nesterov(steps=10)).eval()(
        torch.zeros(64, 256)
    ),
}
small = sp.iDSPN(sp.SetEncoder(2, 16, 16, 3))
sp.hungarian_loss(small(torch.zeros(2, 16)), torch.zeros(2, 3, 2)).sum().backward()  # all is compiled
gc.freeze()  # or the end of the interpreter visits hundreds of thousands of objects of torch, which takes a second
print("ready", flush=True)
while time.process_time() < 60:  # an end of its own, should no signal come
    works[sys.argv[1]]()
"""


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(sys.platform != "linux", reason="looks up the time of the processor in /proc")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("work", "sent"),
    [
        ("match", signal.SIGINT),
        ("match", signal.SIGTERM),
        ("differences", signal.SIGINT),
        ("sort", signal.SIGTERM),
        ("descent", signal.SIGINT),
    ],
)
def test_a_signal_ends_a_long_computation(work, sent, threads):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, work, str(threads)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        began = processor_seconds(child.pid)
        while processor_seconds(child.pid) < began + 1:  # well inside the work, however busy the machine
            assert child.poll() is None
            time.sleep(0.05)
        before = processor_seconds(child.pid)
        child.send_signal(sent)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        # On each thread: the piece that was under way, and the end of the interpreter.
        assert usage.ru_utime + usage.ru_stime - before < 1.0 * threads + 0.5
