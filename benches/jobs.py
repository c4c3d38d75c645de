#!/usr/bin/env python3
"""Measures background jobs that 1, 2 and 3 replicas share in PostgreSQL: jobs per second, and the duration of a job.

    benches/jobs.py [--server PATH] [--rounds N | --smoke]

Each round measures each number of replicas once, with a new PostgreSQL with default settings (each commit waits for the
disk), and 300 jobs that run `print(1)` in warm interpreters. Three users place the jobs as fast as the server accepts
them. By the database's clock, the bench measures the jobs per second from the first placement to the last end. It also
measures the time from the placement of a job to its end, which is mostly waiting. The same time is measured for single
jobs on an idle server, which do not wait: they are placed, claimed, run and stored.

All results are checked. A wrong result is an error with exit code 1.

Linux only. Needs PostgreSQL's programs, and otherwise only the standard library.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from contestants import REPOSITORY, small_bench_options

sys.path.insert(0, str(REPOSITORY / "tests" / "endurance"))
from replicas_of_jobs import Client, Postgres, Replica  # noqa: E402

ROUNDS, USERS, JOBS, ALONE = 10, 3, 300, 40
RESULT = "Status: success\n\nResult:\nSTDOUT:\n1\n\nExecution completed successfully."


class WrongAnswer(Exception):
    pass


def place(client: Client, port: int) -> str:
    while True:
        job, text = client.place(port, "print(1)")
        if job:
            return job
        if "queue of background jobs is full" not in text:
            raise WrongAnswer(text)
        time.sleep(0.01)


def wait(client: Client, port: int, job: str) -> None:
    while (answer := client.status(port, job))[0] in ("queued", "running"):
        time.sleep(0.005)
    if answer[1] != RESULT:
        raise WrongAnswer(answer[1])


def figures(postgres: Postgres) -> tuple[float, list[float]]:
    """Returns the jobs per second and the milliseconds of each job. Deletes the jobs."""
    rows = postgres.sql(
        "SELECT extract(epoch FROM created_at), extract(epoch FROM changed_at), state, attempt FROM qwed_mcp.jobs"
    )
    postgres.sql("DELETE FROM qwed_mcp.jobs")
    jobs = [row.split("|") for row in rows.splitlines()]
    if any(job[2:] != ["2", "1"] for job in jobs):
        raise WrongAnswer("a job has not ended, or was claimed twice")
    began, ended = [float(job[0]) for job in jobs], [float(job[1]) for job in jobs]
    return len(jobs) / (max(ended) - min(began)), [(end - begin) * 1000 for begin, end in zip(began, ended)]


def crowd(ports: list[int], jobs: int) -> None:
    """Places jobs at all replicas as three users, and polls each job."""
    failures: list[Exception] = []

    def user() -> None:
        try:
            client = Client()
            placed = [place(client, ports[number % len(ports)]) for number in range(jobs // USERS)]
            for number, job in enumerate(placed):
                wait(client, ports[(number + 1) % len(ports)], job)
        except Exception as error:  # noqa: BLE001 - reported by the main thread
            failures.append(error)

    users = [threading.Thread(target=user) for _ in range(USERS)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    if failures:
        raise failures[0]


def measure(server: Path, folder: Path, count: int, jobs: int) -> tuple[float, list[float], list[float]]:
    folder.mkdir()
    postgres = Postgres()
    variables = {"QWED_MCP_STORE": postgres.url, "QWED_MCP_PYTHON": sys.executable, "QWED_MCP_LOG": "warn"}
    replicas = [Replica(server, folder, number, variables) for number in range(count)]
    try:
        for replica in replicas:
            replica.start()
            replica.wait()
        ports, client = [replica.port for replica in replicas], Client()
        for port in ports * 20:
            wait(client, port, place(client, port))
        figures(postgres)
        for number in range(min(ALONE, jobs)):
            wait(client, ports[number % count], place(client, ports[number % count]))
        _, alone = figures(postgres)
        crowd(ports, jobs)
        rate, crowded = figures(postgres)
        return rate, alone, crowded
    finally:
        for replica in replicas:
            replica.stop()
        postgres.close()


def main() -> int:
    options = small_bench_options(__doc__.splitlines()[0], ROUNDS)
    is_smoke = options.rounds < ROUNDS
    rounds, jobs = (1, 60) if is_smoke else (options.rounds, JOBS)
    rates: dict[int, list[float]] = {1: [], 2: [], 3: []}
    alone: dict[int, list[float]] = {1: [], 2: [], 3: []}
    crowded: dict[int, list[float]] = {1: [], 2: [], 3: []}
    with tempfile.TemporaryDirectory(prefix="jobs-") as scratch:
        try:
            for turn in range(rounds):
                for count in rates:
                    rate, one, many = measure(options.server, Path(scratch) / f"{turn}-{count}", count, jobs)
                    rates[count].append(rate)
                    alone[count] += one
                    crowded[count] += many
        except WrongAnswer as error:
            print(f"wrong: {error!r}", file=sys.stderr)
            return 1
    print(f"{'replicas':>8} {'jobs/s':>8} {'alone: p50, p99 ms':>20} {'of ' + str(jobs) + ': p50, p99 ms':>20}")
    for count in rates:
        ones, manies = statistics.quantiles(alone[count], n=100), statistics.quantiles(crowded[count], n=100)
        print(f"{count:>8} {statistics.median(rates[count]):>8.0f} {ones[49]:>12.1f} {ones[98]:>7.1f} {manies[49]:>12.0f} {manies[98]:>7.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
