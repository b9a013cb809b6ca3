import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFuture;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The verbs of semaphores and latches. Times are milliseconds. */
final class Synchronizers {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final Peer peer;
    private final Map<String, RFuture<?>> futures = new ConcurrentHashMap<>();

    Synchronizers(Peer peer) {
        this.peer = peer;
    }

    Object obey(Peer.Command command) throws Exception {
        RedissonClient redisson = peer.client(command.client());
        if (command.verb().equals("begin_async")) {
            futures.put(command.args()[0], begin(redisson, command));
            return "done";
        }
        if (command.verb().equals("await_async")) {
            return futures.get(command.args()[0]).get(command.number(1), MS);
        }
        Object answer = switch (command.object()) {
            case "semaphore" -> semaphore(redisson.getSemaphore(command.name()), command);
            case "permits" -> permits(redisson.getPermitExpirableSemaphore(command.name()), command);
            default -> latch(redisson.getCountDownLatch(command.name()), command);
        };
        return answer instanceof List<?> list ? String.join(",", list.stream().map(String::valueOf).toList()) : answer;
    }

    /** One permit, or the end of a latch. */
    private static RFuture<?> begin(RedissonClient redisson, Peer.Command command) {
        return switch (command.object()) {
            case "semaphore" -> redisson.getSemaphore(command.name()).acquireAsync();
            case "permits" -> redisson.getPermitExpirableSemaphore(command.name()).acquireAsync();
            default -> redisson.getCountDownLatch(command.name()).awaitAsync();
        };
    }

    private static Object semaphore(RSemaphore semaphore, Peer.Command command) throws Exception {
        int count = command.has(0) ? Integer.parseInt(command.args()[0]) : 1;
        switch (command.verb()) {
            case "try_set_permits" -> {
                return semaphore.trySetPermits(count);
            }
            case "acquire" -> semaphore.acquire(count);
            case "try_acquire" -> {
                return semaphore.tryAcquire(count, Duration.ofMillis(command.number(1)));
            }
            case "release" -> semaphore.release(count);
            case "available" -> {
                return semaphore.availablePermits();
            }
            case "add" -> semaphore.addPermits(count);
            default -> throw new IllegalArgumentException(command.verb());
        }
        return "done";
    }

    private static Object permits(RPermitExpirableSemaphore permits, Peer.Command command) throws Exception {
        String first = command.has(0) ? command.args()[0] : "";
        switch (command.verb()) {
            case "try_set_permits" -> {
                return permits.trySetPermits(Integer.parseInt(first));
            }
            case "set_permits" -> permits.setPermits(Integer.parseInt(first));
            case "acquire" -> {
                return command.has(0) ? permits.acquire(command.number(0), MS) : permits.acquire();
            }
            case "try_acquire" -> {
                return permits.tryAcquire(Integer.parseInt(first), command.number(1), command.number(2), MS);
            }
            case "release" -> permits.release(Arrays.asList(first.split(",")));
            case "try_release" -> {
                return permits.tryRelease(first);
            }
            case "available" -> {
                return permits.availablePermits();
            }
            case "acquired" -> {
                return permits.acquiredPermits();
            }
            case "lease_time" -> {
                return permits.getLeaseTime(first);
            }
            case "update_lease_time" -> {
                return permits.updateLeaseTime(first, command.number(1), MS);
            }
            default -> throw new IllegalArgumentException(command.verb());
        }
        return "done";
    }

    private static Object latch(RCountDownLatch latch, Peer.Command command) throws Exception {
        switch (command.verb()) {
            case "try_set_count" -> {
                return latch.trySetCount(command.number(0));
            }
            case "count_down" -> latch.countDown();
            case "count" -> {
                return latch.getCount();
            }
            case "await" -> {
                return latch.await(command.number(0), MS);
            }
            case "delete" -> {
                return latch.delete();
            }
            default -> throw new IllegalArgumentException(command.verb());
        }
        return "done";
    }
}
