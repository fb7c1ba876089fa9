import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's tools one after another in one JVM: starting one costs a second.
 * A line of standard input is {"main": ..., "args": [...], "stdin": ...}; the answer is a line
 * {"code": ..., "out": ..., "err": ...}.
 */
public class ToolServer {
    static class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();
    private static final AtomicReference<Integer> EXIT_CODE = new AtomicReference<>();

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
            answers.flush();
        }
    }

    private static Map<String, Object> run(JsonNode request) {
        List<String> arguments = new ArrayList<>();
        request.get("args").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        InputStream in = new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
        System.setIn(in);
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int code = call(request.get("main").asText(), arguments.toArray(new String[0]));
        System.out.flush();
        System.err.flush();
        return Map.of(
            "code", code,
            "out", out.toString(StandardCharsets.UTF_8),
            "err", err.toString(StandardCharsets.UTF_8));
    }

    /** Some tools call exit inside a try that catches every error, and then exit again: the first call counts. */
    private static void exit(int code) {
        EXIT_CODE.compareAndSet(null, code);
        throw new Exited();
    }

    private static int call(String mainClass, String[] arguments) {
        EXIT_CODE.set(null);
        HOOKS.clear();
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
            EXIT_CODE.compareAndSet(null, 0);
        } catch (ReflectiveOperationException error) {
            if (EXIT_CODE.compareAndSet(null, 1)) {
                error.printStackTrace();
            }
        }
        HOOKS.forEach(Runnable::run);
        return EXIT_CODE.get();
    }
}
