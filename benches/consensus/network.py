"""Proxies between clients and servers that know which process a connection belongs to, and fail for that one alone."""

import asyncio, itertools, os, socket, struct, threading

# Of <linux/sock_diag.h>.
SOCK_DIAG, BY_FAMILY = 4, 20
# Below what the kernel gives to outgoing connections, each once, so that two of these scripts can run at a time.
PORTS = itertools.cycle(range(12000, 21900))
next(itertools.islice(PORTS, os.getpid() * 97 % 9900, None))


def free_port():
    for port in PORTS:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Network:
    def __init__(self):
        self.clients, self.stalled, self.links, self.listeners = set(), set(), [], {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def listen(self, port, target):
        """Goes to the server at `target`. Nothing listens while that is down: see `close`."""
        async def begin():
            serve = lambda reader, writer: self.serve(reader, writer, port, target)
            self.listeners[port] = await asyncio.start_server(serve, "127.0.0.1", port)
        self.do(begin())

    def close(self, port):
        async def end():
            self.listeners.pop(port).close()
        self.do(end())

    def forget(self):
        """Ends all of it."""
        for port in list(self.listeners):
            self.close(port)
        self.cut(None)
        self.heal()

    def stall(self, pid, *ways):
        """Nothing of this process passes, on old and new connections, until `heal`."""
        self.stalled |= {(pid, way) for way in ways}

    def heal(self):
        self.stalled = set()

    def cut(self, pid):
        """The connections of this process are reset, or all; what is on its way is lost."""
        async def abort():
            for owner, *writers in self.links:
                if pid in (None, owner):
                    for writer in writers:
                        writer.transport.abort()
        self.do(abort())

    async def serve(self, reader, writer, port, target):
        name = writer.get_extra_info("peername")
        pid = name and self.owner(name[1], port)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            return
        link = (pid, writer, to_server)
        self.links.append(link)
        ways = self.pump(reader, to_server, pid, "requests"), self.pump(from_server, writer, pid, "replies")
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.links.remove(link)
        for end in (writer, to_server):
            end.close()
        await asyncio.wait(tasks, timeout=5)

    async def pump(self, reader, writer, pid, way):
        try:
            while data := await reader.read(1 << 16):
                while (pid, way) in self.stalled:
                    await asyncio.sleep(0.002)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        # The other side's end is not seen through a partition either.
        while (pid, way) in self.stalled:
            await asyncio.sleep(0.002)

    def owner(self, local, remote):
        """The client whose socket has this port; None: a server. Of the kernel it asks for that one socket alone."""
        home = socket.inet_aton("127.0.0.1") + bytes(12)
        wanted = struct.pack("!HH", local, remote) + home * 2 + bytes(4) + b"\xff" * 8
        request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + wanted
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(request), BY_FAMILY, 1, 1, 0) + request)
            answer = kernel.recv(1 << 16)
        if struct.unpack_from("=H", answer, 4)[0] != BY_FAMILY:
            return None
        inode = struct.unpack_from("=I", answer, 84)[0]
        return next((pid for pid in list(self.clients) if has_socket(pid, inode)), None)


def has_socket(pid, inode):
    folder = f"/proc/{pid}/fd"
    try:
        return any(link(f"{folder}/{one}") == f"socket:[{inode}]" for one in os.listdir(folder))
    except OSError:
        return False


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


NETWORK = Network()
