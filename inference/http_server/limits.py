"""How much of everything one connection, and all of them, may use. Knows nothing about how it is enforced."""

from __future__ import annotations

import resource
from dataclasses import dataclass

SPARE_FILES = 256  # of the process: database, model files, kernels, listening sockets
FILES_PER_CONNECTION = 2  # its socket, and the file a large body is kept in while it arrives


@dataclass(frozen=True)
class Limits:
    """`idle_s`: between two requests of a connection. `stall_s`: for a client to take what waits for it.

    `linger_s`: how long a refused client may go on sending, so that it comes to read why.
    """

    max_body_bytes: int = 8 << 20
    max_bodies_bytes: int = 256 << 20  # of all requests that are not answered yet
    max_body_pieces: int = 1 << 16  # of a chunked body: each costs time, however small it is
    max_body_memory_bytes: int = 32 << 10  # of one body while it arrives; the rest waits in a file
    max_headers: int = 128
    max_header_bytes: int = 16 << 10
    header_deadline_s: float = 15.0
    body_deadline_s: float = 60.0
    idle_s: float = 75.0
    stall_s: float = 120.0
    linger_s: float = 3.0
    max_connections: int = 2048
    max_refused_connections: int = 256  # that linger at a time; more are closed without a word
    write_buffer_bytes: int = 8 << 10  # past this the application waits, one message later
    # The kernel's buffer of one connection. It would take megabytes, minutes of a stream, from a model for
    # a client that never reads. Of what such a client has no room for it keeps `unsent_bytes`; the rest is
    # for what is on its way, several of a host's own packets (64 KiB), or each waits for the one before.
    send_buffer_bytes: int = 256 << 10
    unsent_bytes: int = 4 << 10


def connections_possible(wanted: int) -> int:
    """As many connections as wanted, or as the host lets this process open.

    Raises the process's own limit of open files as far as that is allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * FILES_PER_CONNECTION + SPARE_FILES
    if soft == resource.RLIM_INFINITY:
        return wanted
    if hard == resource.RLIM_INFINITY:
        hard = needed
    if soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(min(wanted, (soft - SPARE_FILES) // FILES_PER_CONNECTION), 1)
