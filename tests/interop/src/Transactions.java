import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RTransaction;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;

/** Transactions over one bucket each, which lock `<bucket>:transaction_lock`. The name of a command is the bucket's. */
final class Transactions {
    private final Peer peer;
    private final Map<String, RTransaction> open = new ConcurrentHashMap<>();

    Transactions(Peer peer) {
        this.peer = peer;
    }

    Object obey(Peer.Command command) {
        String key = command.client() + " " + command.name();
        switch (command.verb()) {
            case "begin" -> open.put(key, peer.client(command.client()).createTransaction(
                TransactionOptions.defaults().timeout(command.number(0), TimeUnit.MILLISECONDS)
                    .responseTimeout(20, TimeUnit.SECONDS).syncSlavesTimeout(20, TimeUnit.SECONDS)));
            case "set" -> open.get(key).getBucket(command.name(), StringCodec.INSTANCE).set(command.args()[0]);
            case "commit" -> open.remove(key).commit();
            case "rollback" -> open.remove(key).rollback();
            default -> throw new IllegalArgumentException(command.verb());
        }
        return "done";
    }
}
