import java.util.Arrays;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/** Moves counters that only their locks protect: each step is a GET and a SET. */
final class Soak {
    private Soak() {}

    /**
     * The name of the command is "object/name,..", its arguments the end in epoch milliseconds and a seed. The counter
     * of a lock is its name with "-counter". Answers how often it moved each of them.
     */
    static Object run(Peer peer, Peer.Command command) throws Exception {
        String[] names = command.name().split(",");
        long[] moved = new long[names.length];
        Random chance = new Random(command.number(1));
        while (System.currentTimeMillis() < command.number(0)) {
            int at = chance.nextInt(names.length);
            String[] parts = names[at].split("/", 2);
            RLock lock = peer.locks().of(command.client(), parts[0], parts[1]);
            if (chance.nextInt(4) == 0) {
                if (!lock.tryLock(chance.nextInt(50), -1, TimeUnit.MILLISECONDS)) {
                    continue;
                }
            } else {
                lock.lock();
            }
            moved[at] += turn(peer, command, parts);
            lock.unlock();
        }
        return String.join(",", Arrays.stream(moved).mapToObj(Long::toString).toList());
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
