import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTransaction;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;

/** Moves counters that only their locks protect: each step is a GET and a SET. */
final class Soak {
    /** Longer than the run, so that only a limit of its own ends a wait for a lock. */
    private static final long LEASE = 300_000;
    /** Of what a transaction locks; a waiter that slept through its end looks again after that. */
    private static final long TRANSACTION = 30_000;

    private Soak() {}

    private interface Held {
        void release() throws Exception;
    }

    /**
     * The name of the command is "object/name,..", its arguments the end in epoch milliseconds, a seed, and the clients
     * of the other servers that vote on red locks. The counter of a lock is its name with "-counter". Answers how often
     * it moved each of them.
     */
    static Object run(Peer peer, Peer.Command command) throws Exception {
        String[] names = command.name().split(",");
        long[] moved = new long[names.length];
        Random chance = new Random(command.number(1));
        while (System.currentTimeMillis() < command.number(0)) {
            int at = chance.nextInt(names.length);
            String[] parts = names[at].split("/", 2);
            Held held = take(peer, command, parts, chance.nextInt(4) == 0 ? chance.nextInt(50) : -1);
            if (held != null) {
                moved[at] += turn(peer, command, parts);
                held.release();
            }
        }
        return String.join(",", Arrays.stream(moved).mapToObj(Long::toString).toList());
    }

    /** Null when it had to wait for too long. A wait of -1 has no limit, but a second for permits: they lose wake-ups. */
    private static Held take(Peer peer, Peer.Command command, String[] parts, long wait) throws Exception {
        Duration limit = Duration.ofMillis(wait < 0 ? 1000 : wait);
        switch (parts[0]) {
            case "semaphore" -> {
                RSemaphore semaphore = peer.client(command.client()).getSemaphore(parts[1]);
                return semaphore.tryAcquire(1, limit) ? semaphore::release : null;
            }
            case "permits" -> {
                RPermitExpirableSemaphore permits = peer.client(command.client()).getPermitExpirableSemaphore(parts[1]);
                String id = permits.tryAcquire(limit.toMillis(), LEASE, TimeUnit.MILLISECONDS);
                return id == null ? null : () -> permits.release(id);
            }
            case "transaction" -> {
                // It waits without a limit, for the lock of the bucket that it writes.
                RTransaction transaction = peer.client(command.client()).createTransaction(
                    TransactionOptions.defaults().timeout(TRANSACTION, TimeUnit.MILLISECONDS));
                transaction.getBucket(parts[1], StringCodec.INSTANCE).set("Java was here");
                return transaction::commit;
            }
            default -> {
                RLock lock = peer.locks().of(command.client(), parts[0], lockName(command, parts));
                if (wait < 0) {
                    lock.lock();
                } else if (!lock.tryLock(wait, -1, TimeUnit.MILLISECONDS)) {
                    return null;
                }
                return lock::unlock;
            }
        }
    }

    /** Where a lock has members, all of them. */
    private static String lockName(Peer.Command command, String[] parts) {
        String member = "/lock/" + parts[1];
        return switch (parts[0]) {
            case "multi" -> command.client() + member + "-a," + command.client() + member + "-b";
            case "red" -> Stream.concat(Stream.of(command.client()), Arrays.stream(command.args()).skip(2))
                .map(client -> client + member).collect(Collectors.joining(","));
            default -> parts[1];
        };
    }

    private static int turn(Peer peer, Peer.Command command, String[] parts) {
        RBucket<String> counter = peer.client(command.client()).getBucket(parts[1] + "-counter", StringCodec.INSTANCE);
        String before = counter.get();
        if (parts[0].equals("read")) {
            if (!Objects.equals(before, counter.get())) {
                throw new IllegalStateException("a writer beside a reader of " + parts[1]);
            }
            return 0;
        }
        counter.set(Long.toString(before == null ? 1 : Long.parseLong(before) + 1));
        return 1;
    }
}
