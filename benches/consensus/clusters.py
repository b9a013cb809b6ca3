"""What is compared: how the servers of each system are built, started and asked, and how a client is called."""

import json, os, shutil, socket, subprocess, sys, time, urllib.request
from pathlib import Path

from network import NETWORK, free_port

HOME = Path(__file__).resolve().parent
# Seconds: the lease, the session. ZooKeeper's is at least two of its ticks, etcd's whole seconds and at least two.
LEASE = 3
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp"]
PROGRAMS = {}


def build(out, systems):
    missing = [tool for tool in ("cargo", "go", "javac", "mvn", "redis-server") if not shutil.which(tool)]
    if missing:
        how = "apt-get install golang-go openjdk-17-jdk-headless maven redis-server"
        sys.exit(f"missing: {', '.join(missing)}. Debian: {how}")
    jars, classes = out / "classpath", out / "curator"
    maven = ["mvn", "-q", "-B", "-f", HOME / "curator/pom.xml", f"-Dout={classes}", "compile"]
    commands = {
        "lockson": ["cargo", "build", "--quiet", "-p", "lockson-benches", "--example", "consensus_peer"],
        "etcd": ["go", "build", "-C", HOME / "etcd", "-o", out / "etcd", "."],
        "java": [*maven, "dependency:build-classpath", f"-Dmdep.outputFile={jars}"],
    }
    for program in {SYSTEMS[system].program for system in systems}:
        subprocess.run(commands[program], check=True, cwd=HOME, stdin=subprocess.DEVNULL)
    PROGRAMS.update(
        lockson=[out.parent / "debug/examples/consensus_peer"],
        etcd=[out / "etcd"],
        java=[*JAVA, f"{classes / 'classes'}:{jars.read_text().strip() if jars.exists() else ''}"],
    )


def versions():
    def first(*command):
        return subprocess.run(command, capture_output=True, text=True, cwd=HOME).stdout.split("\n")[0].strip()
    pom, mod = (HOME / "curator/pom.xml").read_text(), (HOME / "etcd/go.mod").read_text()
    version = lambda name: pom.split(f"<artifactId>{name}</artifactId>")[1].split("<version>")[1].split("<")[0]
    etcd = mod.split("etcd/server/v3 v")[1].split()[0]
    redis = first("redis-server", "--version").split()[2].removeprefix("v=")
    java = first("java", "--version").split()[1]
    ours = (HOME.parent.parent / "Cargo.toml").read_text().split('version = "')[1].split('"')[0]
    go = first("go", "version").split()[2]
    return (f"lockson {ours} on Redis {redis}; Curator {version('curator-recipes')} on ZooKeeper "
            f"{version('zookeeper')}, Java {java}; etcd {etcd}, {go}; {os.cpu_count()} cores, all on one machine.")


def ask(port, line):
    """What a server answers to a line: a bulk string of Redis, or all until it closes. Empty: it is not there."""
    text = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as server:
            server.sendall(line.encode())
            while more := server.recv(1 << 16):
                text += more
                head, _, body = text.partition(b"\r\n")
                if head.startswith(b"$") and len(body) > int(head[1:]):
                    break
    except OSError:
        return ""
    return text.decode()


def info(port, section):
    return ask(port, f"INFO {section}\r\n")


def until(check):
    limit = time.monotonic() + 60
    while not check():
        assert time.monotonic() < limit, "the servers are not ready"
        time.sleep(0.05)


class Node:
    """A server, which clients reach by `port` and others directly by `own`."""

    def __init__(self, folder, log):
        self.folder, self.log, self.process = folder, log, None
        self.port, self.own = free_port(), free_port()
        folder.mkdir()

    def run(self, *command):
        self.command = [str(word) for word in command]
        self.start()

    def start(self):
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdin=null, stdout=self.log, stderr=self.log, cwd=self.folder)
        NETWORK.listen(self.port, self.own)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            NETWORK.close(self.port)
        self.process = None


class Cluster:
    """Servers, ready, and what is asked of all systems."""

    # The client, and the faults that the system does not have.
    program, without = "lockson", ()

    def __init__(self, folder, log, count=3):
        self.nodes = [Node(folder / f"node-{at}", log) for at in range(count)]
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for node in self.nodes:
            node.kill()

    def leader(self):
        return self.nodes[0]

    def other(self):
        leader = self.leader()
        return next(node for node in reversed(self.nodes[:3]) if node is not leader)

    def addresses(self, scheme="", nodes=None):
        return ",".join(f"{scheme}127.0.0.1:{node.port}" for node in nodes or self.nodes)

    def lockson(self, kind, urls, name):
        return [*PROGRAMS["lockson"], kind, urls, name, str(LEASE * 1000)]


def redis(node, *settings):
    node.run("redis-server", "--port", node.own, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", node.folder, "--replica-announce-ip", "127.0.0.1", "--replica-announce-port", node.port,
             *settings)


class Single(Cluster):
    """lockson, one server"""

    without = ("server_lost",)

    def __init__(self, folder, log):
        super().__init__(folder, log, 1)

    def begin(self):
        redis(self.nodes[0])
        until(lambda: info(self.nodes[0].own, "server"))

    def client(self, name):
        return self.lockson("single", self.addresses("redis://"), name)


class Sentinels(Cluster):
    """A primary with two replicas, and three sentinels that watch them."""

    kind = ""

    def __init__(self, folder, log):
        super().__init__(folder, log, 6)

    def begin(self):
        primary, *replicas = self.nodes[:3]
        redis(primary, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        for node in replicas:
            redis(node, "--replicaof", f"127.0.0.1 {primary.port}", "--repl-diskless-sync-delay", "0")
        until(lambda: all("master_link_status:up" in info(node.own, "replication") for node in replicas))
        for node in self.nodes[3:]:
            file = node.folder / "sentinel.conf"
            file.write_text(f"port {node.own}\nbind 127.0.0.1\ndir {node.folder}\n"
                            f"sentinel announce-ip 127.0.0.1\nsentinel announce-port {node.port}\n"
                            f"sentinel monitor lock 127.0.0.1 {primary.port} 2\n"
                            "sentinel down-after-milliseconds lock 1000\nsentinel failover-timeout lock 6000\n")
            node.run("redis-server", file, "--sentinel")
        until(lambda: all("status=ok" in text and "slaves=2,sentinels=3" in text
                          for text in (info(node.own, "sentinel") for node in self.nodes[3:])))

    def client(self, name):
        urls = "redis-sentinel://" + self.addresses(nodes=self.nodes[3:]) + "/lock"
        return self.lockson(self.kind, urls, name)


class ConfirmOne(Sentinels):
    """lockson, sentinels, confirm by 1 of 2 replicas"""

    kind = "confirm-one"


class ConfirmAll(Sentinels):
    """lockson, sentinels, confirm by all"""

    kind = "confirm-all"


class Red(Cluster):
    """lockson, RedLock of 3"""

    without = ("leader_lost", "leader_lost_at_release")

    def leader(self):
        return None

    def begin(self):
        for node in self.nodes:
            redis(node)
        until(lambda: all(info(node.own, "server") for node in self.nodes))

    def client(self, name):
        return self.lockson("red", self.addresses("redis://"), name)


class ZooKeeper(Cluster):
    """ZooKeeper of 3, Curator"""

    program = "java"

    def begin(self):
        servers = "".join(f"server.{at}=127.0.0.1:{free_port()}:{free_port()}\n" for at in range(1, 4))
        for at, node in enumerate(self.nodes, 1):
            (node.folder / "myid").write_text(str(at))
            file = node.folder / "zoo.cfg"
            file.write_text("tickTime=1000\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n"
                            "4lw.commands.whitelist=srvr\nclientPortAddress=127.0.0.1\n"
                            f"dataDir={node.folder}\nclientPort={node.own}\n{servers}")
            node.run(*PROGRAMS["java"], "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
        until(lambda: sorted(map(self.mode, self.nodes)) == ["follower", "follower", "leader"])

    def mode(self, node):
        return ask(node.own, "srvr").partition("Mode: ")[2].split("\n")[0]

    def leader(self):
        return next(node for node in self.nodes if self.mode(node) == "leader")

    def client(self, name):
        return [*PROGRAMS["java"], "Peer", self.addresses(), f"/{name}", str(LEASE * 1000)]


class Etcd(Cluster):
    """etcd of 3, its mutex"""

    program = "etcd"

    def begin(self):
        peers = [f"http://127.0.0.1:{free_port()}" for _ in self.nodes]
        cluster = ",".join(f"n{at}={peer}" for at, peer in enumerate(peers))
        for at, (node, peer) in enumerate(zip(self.nodes, peers)):
            own = f"http://127.0.0.1:{node.own}"
            node.run(*PROGRAMS["etcd"], "server", "--name", f"n{at}", "--data-dir", node.folder / "data",
                     "--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peer,
                     "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, "--log-level", "error")
        until(lambda: all(self.leads(node) is not None for node in self.nodes))

    def leads(self, node):
        """None: it knows no leader."""
        url = f"http://127.0.0.1:{node.own}/v3/maintenance/status"
        try:
            with urllib.request.urlopen(url, b"{}", 1) as answer:
                status = json.load(answer)
        except OSError:
            return None
        leader = status.get("leader", "0")
        return None if leader == "0" else leader == status["header"]["member_id"]

    def leader(self):
        return next(node for node in self.nodes if self.leads(node))

    def client(self, name):
        return [*PROGRAMS["etcd"], self.addresses(), f"/{name}", str(LEASE)]


SYSTEMS = {"single": Single, "confirm-one": ConfirmOne, "confirm-all": ConfirmAll, "red": Red, "zookeeper": ZooKeeper,
           "etcd": Etcd}
