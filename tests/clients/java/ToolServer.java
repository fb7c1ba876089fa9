import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's tools one after another in one JVM: starting one costs a second.
 * A line of standard input is {"main": ..., "args": [...], "stdin": ...}; the answer is a line
 * {"code": ..., "out": ..., "err": ...}.
 */
public class ToolServer {
    static class Exited extends Error {
        final int code;

        Exited(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> { throw new Exited(code); });
        Exit.setHaltProcedure((code, message) -> { throw new Exited(code); });
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

    private static int call(String mainClass, String[] arguments) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exited) {
                return ((Exited) wrapped.getCause()).code;
            }
            wrapped.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            return 1;
        }
    }
}
