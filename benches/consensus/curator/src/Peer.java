// One client of ZooKeeper with Curator's InterProcessMutex: takes the lock and gives it back as the script says, and
// tells since when, and until when, Curator says that it is held. The arguments: servers, name, session milliseconds.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

public class Peer {
    private static final AtomicBoolean connected = new AtomicBoolean();
    private static volatile boolean holds;

    public static void main(String[] arguments) throws Exception {
        int session = Integer.parseInt(arguments[2]);
        CuratorFramework curator = CuratorFrameworkFactory.builder()
            .connectString(arguments[0])
            .sessionTimeoutMs(session)
            .connectionTimeoutMs(session)
            .retryPolicy(new RetryForever(100))
            // The servers' own addresses are not those that clients go by here.
            .ensembleTracker(false)
            .build();
        // As Curator's documents say: who is told SUSPENDED is not sure any more that it holds the lock, LOST ends it.
        curator.getConnectionStateListenable().addListener((client, state) -> {
            connected.set(state.isConnected());
            holds &= state != ConnectionState.LOST;
        });
        curator.start();
        curator.blockUntilConnected();
        connected.set(true);
        InterProcessMutex mutex = new InterProcessMutex(curator, arguments[1]);
        Thread watch = new Thread(Peer::watch);
        watch.setDaemon(true);
        watch.start();
        say("ready", now());
        // A mutex belongs to its thread: this one.
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("acquire")) {
                acquire(mutex);
                holds = true;
            } else {
                holds = false;
                release(mutex);
            }
        }
        // Killed or closed: the session is not ended by hand.
        Runtime.getRuntime().halt(0);
    }

    /** A call that fails is made again. */
    private static void acquire(InterProcessMutex mutex) throws InterruptedException {
        while (true) {
            try {
                mutex.acquire();
                return;
            } catch (Exception error) {
                say("error", now() + " " + error);
                Thread.sleep(100);
            }
        }
    }

    private static void release(InterProcessMutex mutex) {
        try {
            mutex.release();
            say("released", now());
        } catch (Exception error) {
            say("error", now() + " " + error);
        }
    }

    /** Asks each millisecond. An end is told as of the last time that it was held. */
    private static void watch() {
        boolean valid = false;
        long last = 0;
        while (true) {
            long before = now();
            boolean is = holds && connected.get();
            if (is && !valid) {
                say("valid", now());
            } else if (!is && valid) {
                say("invalid", last);
            }
            valid = is;
            last = is ? before : last;
            try {
                Thread.sleep(1);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    private static synchronized void say(String what, Object rest) {
        System.out.println(what + " " + rest);
        System.out.flush();
    }
}
