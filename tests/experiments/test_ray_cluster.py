import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.experiments.two_machines import LOOPBACK, ROOT

pytestmark = pytest.mark.slow


def hard_work(*arguments):
    environment = {**os.environ, **LOOPBACK, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.experiments.hard_work", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def test_what_the_work_raises_is_raised_and_a_part_that_ends_its_process_is_given_up(machines):
    said, faults = hard_work(machines.address).communicate(timeout=600)
    made, no_folder, odd, no_key, ended, late = said.splitlines()
    assert made == "[b'A', b'B']", faults
    assert no_folder == "OSError: [Errno 2] No such file or directory: '/none/of/this'"
    assert odd == "StoreError: TypeError: can't concat int to bytes. Finished parts are kept"
    assert no_key == "ConfigurationError: no key. Export it"
    lost = "3 processes ended while they worked on its part; the last:"
    assert ended == f"[b'D', b'end: {lost} for want of memory, perhaps']"
    assert late == f"[b'E', b'wait: {lost} the limit of 2 s']"


def test_a_cluster_of_our_own_listens_on_loopback_only_and_leaves_nothing(tmp_path):
    with hard_work() as process:
        below, addresses, deadline = {}, set(), time.monotonic() + 600
        while not any("MapWorker" in "".join(each.cmdline()[:1]) for each in alive(below)):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            below |= {each.pid: each for each in psutil.Process(process.pid).children(recursive=True)}
            time.sleep(0.1)
        for each in alive(below):
            addresses |= {found.laddr.ip for found in each.net_connections("inet") if found.status == "LISTEN"}
        process.terminate()
        process.communicate()
    assert addresses
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1"}
    _, left = psutil.wait_procs(list(below.values()), timeout=300)
    assert left == []


def alive(processes):
    return [each for each in processes.values() if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
