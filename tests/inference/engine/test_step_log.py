from __future__ import annotations

import re

from inference.engine.step_log import StepLog
from tests.fakes.executor import Gate
from tests.inference.engine.driving import read_all, request_of


def test_each_step_is_one_line_of_its_rows_times_and_what_waits(make_worker):
    lines: list[str] = []
    gate = Gate()
    worker, executor = make_worker(
        before_step=gate, worker_args={"on_step": StepLog("tiny", lines.append)}
    )
    streams = [worker.submit(request_of([i] * 20, 4)) for i in range(9)]
    worker.start()
    gate.open()
    for stream in streams:
        read_all(stream)
    worker.close("The test is over.")
    assert len(lines) == executor.num_steps
    number = r"\d+\.\d{3}"
    form = re.compile(
        rf"step=(\d+) model=tiny decodes=(\d+) prompt_tokens=(\d+) plan_ms={number}"
        rf" step_ms={number} sample_ms={number} commit_ms={number} queued=(\d+)"
        r" pages_available=(\d+)\n"
    )
    rows = [tuple(map(int, form.fullmatch(line).groups())) for line in lines]
    assert rows[0] == (1, 0, 16, 1, 64 - 8)
    assert rows[1][:3] == (2, 0, 4)
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert sum(row[2] for row in rows) == 9 * 20
    assert rows[-1][3:] == (0, 64)


def test_a_log_that_cannot_be_written_stops_no_model(make_worker, tmp_path):
    closed = (tmp_path / "log").open("w")
    closed.close()
    worker, _ = make_worker(worker_args={"on_step": StepLog("tiny", closed.write)})
    stream = worker.submit(request_of([1], 4))
    worker.start()
    assert len(read_all(stream)) == 4
