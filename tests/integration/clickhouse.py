"""ClickHouse servers of a test run: Debian's package as plain processes, each with paths, ports and users of its own, loopback only."""

import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from postgres import NOBODY, free_port

PASSWORD = "s3cr3t-%25%2Fpass"  # as it stands in a URL
SKIP = "clickhouse-server is not installed: scripts/install-deps test (Debian 12 has it; Debian 13 does not)"


def program():
    """The server; None when it is not installed."""
    return shutil.which("clickhouse-server") or next((p for p in ["/usr/sbin/clickhouse-server"] if os.access(p, os.X_OK)), None)


CONFIG = """<yandex>
    <logger><level>warning</level><console>1</console></logger>
    <listen_host>127.0.0.1</listen_host>
    <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{interserver}</interserver_http_port>
    <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path><user_files_path>{path}/files/</user_files_path>
    <format_schema_path>{path}/schemas/</format_schema_path>
    <users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
    <timezone>{timezone}</timezone><mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
    <keep_alive_timeout>30</keep_alive_timeout><max_concurrent_queries>50</max_concurrent_queries>
    <remote_servers><both>{shards}</both></remote_servers>
    <dictionaries_config>none*.xml</dictionaries_config>
</yandex>"""

SHARD = "<shard><replica><host>127.0.0.1</host><port>{}</port><user>boss</user></replica></shard>"

USER = """<{name}><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>{profile}</profile><quota>default</quota></{name}>"""

USERS = """<yandex>
    <profiles><default><max_memory_usage>1000000000</max_memory_usage><max_threads>2</max_threads></default>
        <strict><readonly>1</readonly></strict><two><readonly>2</readonly></two></profiles>
    <users>{users}</users><quotas><default/></quotas>
</yandex>"""


class ClickHouse:
    """`count` servers that know each other as the cluster `both`."""

    def __init__(self, count=1, timezone="UTC"):
        self.directory = Path(tempfile.mkdtemp(prefix="riddle-ch-"))
        self.ports = [{"http": free_port(), "tcp": free_port(), "interserver": free_port()} for _ in range(count)]
        self.timezone = timezone
        self.processes = []
        self.as_user = {}
        if os.getuid() == 0:
            self.as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def start(self):
        secret = urllib.parse.unquote(PASSWORD)
        users = "".join([
            USER.format(name="boss", password="", profile="default"),
            USER.format(name="reader", password=secret, profile="default"),
            USER.format(name="strict", password=secret, profile="strict"),
            USER.format(name="two", password=secret, profile="two"),
        ])
        shards = "".join(SHARD.format(p["tcp"]) for p in self.ports)
        for i, ports in enumerate(self.ports):
            path = self.directory / str(i)
            for name in ("data", "tmp", "files", "schemas"):
                (path / name).mkdir(parents=True)
            (path / "config.xml").write_text(CONFIG.format(path=path, shards=shards, timezone=self.timezone, **ports))
            (path / "users.xml").write_text(USERS.format(users=users))
        if self.as_user:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", self.directory], check=True)
        self.run()
        return self

    def run(self):
        self.processes = []
        for i in range(len(self.ports)):
            path = self.directory / str(i)
            with open(path / "log", "a") as log:
                self.processes.append(subprocess.Popen([program(), f"--config-file={path}/config.xml"], stdout=log, stderr=log, cwd=path,
                                                       env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, **self.as_user))
        deadline = time.monotonic() + 60
        for i in range(len(self.ports)):
            while not self.answers(i):
                assert self.processes[i].poll() is None, (self.directory / str(i) / "log").read_text()
                assert time.monotonic() < deadline, "ClickHouse did not start"
                time.sleep(0.05)

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(timeout=60)

    def restart(self):
        self.end()
        self.run()

    def answers(self, i):
        try:
            return self.ask("SELECT 1", server=i) == "1"
        except urllib.error.URLError:
            return False

    def ask(self, sql, data=b"", server=0, user="boss", database="default"):
        """What the server answers to `user`, as tab-separated text. `data` follows an INSERT … FORMAT."""
        arguments = urllib.parse.urlencode({"query": sql, "database": database})
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[server]['http']}/?{arguments}", data=data or b"",
                                         headers={"X-ClickHouse-User": user})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read().decode().rstrip("\n")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{sql[:200]}: {error.read().decode()[:500]}") from None

    def url(self, user="reader", database="default", password=PASSWORD, server=0):
        login = user + (f":{password}" if password else "")
        return f"clickhouse://{login}@127.0.0.1:{self.ports[server]['http']}/{database}"

    def stop(self):
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)
