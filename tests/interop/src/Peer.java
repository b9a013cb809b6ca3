import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.ReadMode;

/**
 * Obeys commands on standard input, one a line: "id client thread object name verb arguments..". Each named thread does
 * its commands in their order. Answers, when they come: "id begin end ok|err text"; the times are microseconds of the
 * epoch.
 */
public final class Peer {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final Locks locks = new Locks(this);
    private final Synchronizers synchronizers = new Synchronizers(this);
    private final Transactions transactions = new Transactions(this);

    /** One command. */
    record Command(String client, String object, String name, String verb, String[] args) {
        long number(int at) {
            return Long.parseLong(args[at]);
        }

        boolean has(int at) {
            return args.length > at;
        }
    }

    private static final class Worker {
        private volatile Thread thread;
        private final ExecutorService executor = Executors.newSingleThreadExecutor(work -> {
            thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
    }

    public static void main(String[] args) throws IOException {
        Peer peer = new Peer();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            peer.take(line.split(" "));
        }
        Runtime.getRuntime().halt(0);
    }

    private void take(String[] words) {
        String[] arguments = Arrays.copyOfRange(words, 6, words.length);
        Command command = new Command(words[1], words[3], words[4], words[5], arguments);
        if (command.verb.equals("interrupt")) {
            workers.get(words[2]).thread.interrupt();
            answer(words[0], now(), "ok done");
            return;
        }
        Worker worker = workers.computeIfAbsent(words[2], name -> new Worker());
        worker.executor.execute(() -> {
            long begin = now();
            try {
                answer(words[0], begin, "ok " + obey(command));
            } catch (Throwable error) {
                String why = error.getCause() == null ? "" : " (" + error.getCause() + ")";
                answer(words[0], begin, "err " + error + why);
            }
        });
    }

    private static void answer(String id, long begin, String text) {
        String line = id + " " + begin + " " + now() + " " + text.replaceAll("\\s+", " ");
        synchronized (System.out) {
            System.out.println(line);
        }
    }

    private static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private Object obey(Command command) throws Exception {
        return switch (command.object) {
            case "client" -> client(command);
            case "semaphore", "permits", "latch" -> synchronizers.obey(command);
            case "transaction" -> transactions.obey(command);
            case "soak" -> Soak.run(this, command);
            default -> locks.obey(command);
        };
    }

    RedissonClient client(String name) {
        return clients.get(name);
    }

    Locks locks() {
        return locks;
    }

    private Object client(Command command) throws Exception {
        switch (command.verb) {
            case "open" -> clients.put(command.client, open(command.args));
            case "shutdown" -> clients.remove(command.client).shutdown();
            case "id" -> {
                return client(command.client).getId();
            }
            case "thread" -> {
                return Thread.currentThread().getId();
            }
            case "entry" -> {
                return entry(client(command.client).getMap(command.args[0], StringCodec.INSTANCE), command.args[1]);
            }
            default -> throw new IllegalArgumentException(command.verb);
        }
        return "done";
    }

    /** The names of all that an entry of a map can have. */
    private static String entry(RMap<String, String> map, String key) {
        return String.join(" ", map.getLock(key).getName(), map.getFairLock(key).getName(),
            map.getReadWriteLock(key).readLock().getName(), map.getSemaphore(key).getName(),
            map.getPermitExpirableSemaphore(key).getName(), map.getCountDownLatch(key).getName());
    }

    /** Settings are "name=value"; the URL, as lockson has it, is one of them. With a replica's port both servers are used. */
    private static RedissonClient open(String[] settings) {
        Map<String, String> given = Arrays.stream(settings).map(setting -> setting.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        Config config = new Config();
        // Values of groups are hashed as they are encoded.
        config.setThreads(8).setNettyThreads(4).setCodec(StringCodec.INSTANCE);
        config.setNameMapper(around(given.getOrDefault("prefix", ""), given.getOrDefault("suffix", "")));
        BaseConfig<?> server = servers(config, URI.create(given.remove("url")), given.remove("replica"));
        given.forEach((name, value) -> {
            switch (name) {
                case "watchdog" -> config.setLockWatchdogTimeout(Long.parseLong(value));
                case "batch" -> config.setLockWatchdogBatchSize(Integer.parseInt(value));
                case "fair_wait" -> config.setFairLockWaitTimeout(Long.parseLong(value));
                case "timeout" -> server.setTimeout(Integer.parseInt(value));
                case "attempts" -> server.setRetryAttempts(Integer.parseInt(value));
                case "user" -> server.setUsername(value);
                case "password" -> server.setPassword(value);
                case "prefix", "suffix" -> { }
                default -> throw new IllegalArgumentException(name);
            }
        });
        return Redisson.create(config);
    }

    private static BaseConfig<?> servers(Config config, URI url, String replica) {
        String[] hosts = Arrays.stream(url.getAuthority().split(",")).map(host -> "redis://" + host)
            .toArray(String[]::new);
        // The next look at the servers comes within this time: what a failover costs is not what is tested.
        int scan = 500;
        switch (url.getScheme()) {
            case "redis-sentinel" -> {
                return replicated(config.useSentinelServers().setMasterName(url.getPath().substring(1))
                    .addSentinelAddress(hosts).setScanInterval(scan));
            }
            case "redis-cluster" -> {
                return replicated(config.useClusterServers().addNodeAddress(hosts).setScanInterval(scan));
            }
            default -> {
                if (replica == null) {
                    return config.useSingleServer().setAddress(hosts[0])
                        .setConnectionMinimumIdleSize(4).setSubscriptionConnectionMinimumIdleSize(1);
                }
                return replicated(config.useMasterSlaveServers().setMasterAddress(hosts[0])
                    .addSlaveAddress("redis://127.0.0.1:" + replica));
            }
        }
    }

    /** Counts are asked of the primary: a replica may be behind. */
    private static <T extends BaseMasterSlaveServersConfig<T>> T replicated(T servers) {
        return servers.setReadMode(ReadMode.MASTER).setMasterConnectionMinimumIdleSize(4)
            .setSlaveConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
    }

    private static NameMapper around(String prefix, String suffix) {
        return new NameMapper() {
            @Override
            public String map(String name) {
                return prefix + name + suffix;
            }

            @Override
            public String unmap(String name) {
                return name.substring(prefix.length(), name.length() - suffix.length());
            }
        };
    }
}
