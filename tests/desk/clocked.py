"""A desk's server whose clock is off by as many seconds as a file says, at any moment.

`python -m tests.desk.clocked PLACE PORT FILE`: the wall clock jumps as an operator's hand or a bad
time server makes it jump, while the process runs on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from expertload.desk import Desk
from expertload.desk.app import create_app, listen, serve

if __name__ == "__main__":
    place, port, file = sys.argv[1:]

    def clock() -> int:
        return time.time_ns() // 1_000 + int(Path(file).read_text()) * 1_000_000

    with Desk.open(place, serving=True, clock=clock) as desk:
        serve(create_app(desk), listen("127.0.0.1", int(port)))
