"""A server as `metricldp collector serve` runs it, or a broken one, for tests of system calls.

python serve_one.py FOLDER PORT [early|unsynced]
"""

import asyncio
import socket
import sys
from functools import partial
from pathlib import Path

from metricldp.cli.collector import build_application, run_server
from metricldp.collector.intake import Intake
from metricldp.collector.server import Options
from metricldp.collector.sqlite import SQLite

if __name__ == "__main__":
    folder, port, *broken = sys.argv[1:]
    if "unsynced" in broken:  # the disk is not waited for
        plain = SQLite.__init__

        def made(self, folder):
            plain(self, folder)
            self.rows("PRAGMA synchronous = OFF")

        SQLite.__init__ = made
    if "early" in broken:  # the answer does not wait for the transaction
        late = []

        async def commit(database):
            await asyncio.sleep(0.02)
            database.commit()

        async def written(self, uploads, counts):
            await asyncio.gather(*late)
            database = self._books.database
            database.begin(10)
            found = self._books.write(uploads, counts)
            late[:] = [asyncio.create_task(commit(database))]
            return found

        Intake._written = written
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(port)))
    listening.listen(64)
    run_server(partial(build_application, Path(folder), None, Options(every=0.0)), [listening])
