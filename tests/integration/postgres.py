"""A PostgreSQL server of a test run: Debian's package, a directory of its own, an unprivileged user, loopback only."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

NOBODY = 65534
PASSWORD = "s3cr3t-%25%2Fpass"  # as it stands in a URL


def programs():
    """Directory of initdb and postgres; None when they are not installed."""
    for path in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        if os.access(f"{path}/initdb", os.X_OK):
            return Path(path)
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Postgres:
    def __init__(self):
        self.bin = programs()
        self.directory = Path(tempfile.mkdtemp(prefix="riddle-pg-"))
        self.port = free_port()
        self.as_user = {}
        if os.getuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
            self.as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def start(self):
        data = self.directory / "data"
        subprocess.run(
            [self.bin / "initdb", "-D", data, "-U", "boss", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"],
            check=True, capture_output=True, cwd=self.directory, env=self.env, **self.as_user,
        )
        (data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        options = {
            "unix_socket_directories": self.directory, "listen_addresses": "127.0.0.1", "port": self.port, "fsync": "off",
            "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": 40, "timezone": "UTC",
            "autovacuum": "off", "log_min_messages": "fatal",
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self.log = open(self.directory / "log", "w")
        self.process = subprocess.Popen([self.bin / "postgres", "-D", data, *arguments], stdout=self.log, stderr=self.log,
                                        cwd=self.directory, env=self.env, **self.as_user)
        deadline = time.monotonic() + 60
        while self.psql("SELECT 1", check=False).returncode != 0:
            assert self.process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)
        return self

    def psql(self, sql, check=True, database="postgres"):
        done = subprocess.run(
            [self.bin / "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", self.directory, "-p", str(self.port),
             "-U", "boss", database],
            input=sql, capture_output=True, text=True, env=self.env, cwd=self.directory,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def ask(self, sql, database="postgres"):
        """What psql prints for a query of the superuser."""
        return self.psql(sql, database=database).stdout.strip()

    def url(self, user="reader", database="postgres", password=PASSWORD):
        login = user + (f":{password}" if password else "")
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def stop(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=60)
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)
