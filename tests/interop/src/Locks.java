import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.redisson.api.LockOptions;
import org.redisson.api.RFencedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The verbs of locks. Times are milliseconds; a lease of -1 is the watchdog's. */
final class Locks {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final Peer peer;
    private final Map<String, RLock> made = new ConcurrentHashMap<>();
    private final Map<String, RFuture<?>> futures = new ConcurrentHashMap<>();

    Locks(Peer peer) {
        this.peer = peer;
    }

    /** One object for a client and a name, as a service keeps it in a field. */
    RLock of(String client, String object, String name) {
        String key = client + " " + object + " " + name;
        if (!made.containsKey(key)) {
            made.putIfAbsent(key, make(client, object, name));
        }
        return made.get(key);
    }

    private RLock make(String client, String object, String name) {
        RedissonClient redisson = peer.client(client);
        return switch (object) {
            case "lock" -> redisson.getLock(name);
            case "mutex" -> redisson.getNonReentrantLock(name);
            case "fair_lock" -> redisson.getFairLock(name);
            case "fair_mutex" -> redisson.getNonReentrantFairLock(name);
            case "spin_lock" -> redisson.getSpinLock(name);
            case "fenced_lock" -> redisson.getFencedLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "entry" -> {
                String[] parts = name.split("/", 2);
                yield redisson.getMap(parts[0], StringCodec.INSTANCE).getLock(parts[1]);
            }
            case "group" -> {
                String[] parts = name.split("/");
                List<Object> values = Arrays.<Object>asList(parts).subList(1, parts.length);
                yield redisson.getMultiLock(parts[0], values);
            }
            case "multi" -> redisson.getMultiLock(members(name));
            case "red" -> redisson.getRedLock(members(name));
            default -> throw new IllegalArgumentException(object);
        };
    }

    /** "client/object/name,client/object/name". */
    private RLock[] members(String names) {
        return Arrays.stream(names.split(",")).map(member -> member.split("/", 3))
            .map(parts -> of(parts[0], parts[1], parts[2])).toArray(RLock[]::new);
    }

    Object obey(Peer.Command command) throws Exception {
        RLock lock = of(command.client(), command.object(), command.name());
        switch (command.verb()) {
            case "lock" -> {
                if (command.has(0)) {
                    lock.lock(command.number(0), MS);
                } else {
                    lock.lock();
                }
            }
            case "lock_seconds" -> lock.lock(command.number(0), TimeUnit.SECONDS);
            case "lock_interruptibly" -> lock.lockInterruptibly();
            case "try_lock" -> {
                return command.has(0) ? lock.tryLock(command.number(0), command.number(1), MS) : lock.tryLock();
            }
            case "unlock" -> lock.unlock();
            case "force_unlock" -> {
                return lock.forceUnlock();
            }
            case "state" -> {
                return lock.isLocked() + " " + lock.isHeldByCurrentThread() + " " + lock.getHoldCount() + " "
                    + lock.remainTimeToLive();
            }
            case "name" -> {
                return lock.getName();
            }
            case "held" -> {
                return lock.isHeldByCurrentThread();
            }
            case "lock_async" -> futures.put(command.args()[0], lock.lockAsync());
            case "try_lock_async" -> futures.put(command.args()[0], command.has(1)
                ? lock.tryLockAsync(command.number(1), command.number(2), MS) : lock.tryLockAsync());
            case "cancel" -> {
                return futures.get(command.args()[0]).cancel(true);
            }
            case "pauses" -> {
                return pauses(new LockOptions.ExponentialBackOff().create(), (int) command.number(0));
            }
            case "result" -> {
                return futures.get(command.args()[0]).get(command.number(1), MS);
            }
            case "await" -> futures.get(command.args()[0]).get(command.number(1), MS);
            default -> {
                return token((RFencedLock) lock, command);
            }
        }
        return "done";
    }

    private static Object token(RFencedLock lock, Peer.Command command) throws Exception {
        return switch (command.verb()) {
            case "token" -> lock.getToken();
            case "lock_and_get_token" ->
                command.has(0) ? lock.lockAndGetToken(command.number(0), MS) : lock.lockAndGetToken();
            case "try_lock_and_get_token" -> command.has(0)
                ? lock.tryLockAndGetToken(command.number(0), command.number(1), MS) : lock.tryLockAndGetToken();
            default -> throw new IllegalArgumentException(command.verb());
        };
    }

    /** What a spin lock sleeps between its attempts, with its default back-off. */
    private static String pauses(LockOptions.BackOffPolicy policy, int count) {
        return LongStream.generate(policy::getNextSleepPeriod).limit(count).mapToObj(Long::toString)
            .collect(Collectors.joining(","));
    }
}
