import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.tensorflow.RawTensor;
import org.tensorflow.Result;
import org.tensorflow.SavedModelBundle;
import org.tensorflow.Tensor;
import org.tensorflow.TensorFlow;
import org.tensorflow.ndarray.NdArray;
import org.tensorflow.ndarray.NdArrays;
import org.tensorflow.ndarray.Shape;
import org.tensorflow.ndarray.buffer.DataBuffers;
import org.tensorflow.types.TInt32;
import org.tensorflow.types.TInt64;
import org.tensorflow.types.TString;
import org.tensorflow.types.family.TType;

/**
 * Answers requests to SavedModels: `java -cp JARS OlderRuntime.java REQUESTS ANSWERS LIBRARY...`
 *
 * `java_program.py` writes REQUESTS and reads ANSWERS. Their numbers are big-endian, and bytes follow their number.
 *
 * REQUESTS: the number of models; for each model its folder and the number of its requests; for each request the
 * signature and the number of its inputs; for each input its name and tensor.
 *
 * ANSWERS: the version of TensorFlow; for each request an error message, which is empty if there was no error, and then
 * the number of its outputs; for each output its name and tensor.
 *
 * A tensor is its number of `DataType`, its rank, its dimensions, and its strings or, as bytes, its little-endian
 * numbers.
 */
public final class OlderRuntime {
  private static final int STRING = 7;
  private static final Map<Integer, Class<? extends TType>> INTEGERS = Map.of(3, TInt32.class, 9, TInt64.class);

  public static void main(String[] arguments) throws IOException {
    Path requests = Path.of(arguments[0]);
    Path answers = Path.of(arguments[1]);
    try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(requests)));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(answers)))) {
      writeText(out, TensorFlow.version());
      for (int i = 2; i < arguments.length; i++) {
        TensorFlow.loadLibrary(arguments[i]);
      }
      for (int models = in.readInt(); models > 0; models--) {
        try (SavedModelBundle model = SavedModelBundle.load(readText(in), "serve")) {
          for (int count = in.readInt(); count > 0; count--) {
            answer(model, in, out);
          }
        }
      }
    }
  }

  private static void answer(SavedModelBundle model, DataInputStream in, DataOutputStream out) throws IOException {
    String signature = readText(in);
    Map<String, Tensor> inputs = new LinkedHashMap<>();
    for (int count = in.readInt(); count > 0; count--) {
      inputs.put(readText(in), readTensor(in));
    }
    try (Result outputs = model.function(signature).call(inputs)) {
      writeText(out, "");
      out.writeInt(outputs.size());
      for (Map.Entry<String, Tensor> output : outputs) {
        writeText(out, output.getKey());
        writeTensor(out, output.getValue());
      }
    } catch (RuntimeException error) {
      writeText(out, error.getClass().getSimpleName() + ": " + error.getMessage());
    } finally {
      inputs.values().forEach(Tensor::close);
    }
  }

  private static Tensor readTensor(DataInputStream in) throws IOException {
    int type = in.readInt();
    long[] dimensions = new long[in.readInt()];
    for (int i = 0; i < dimensions.length; i++) {
      dimensions[i] = in.readLong();
    }
    Shape shape = Shape.of(dimensions);
    if (type != STRING) {
      return Tensor.of(INTEGERS.get(type), shape, DataBuffers.of(readBytes(in)));
    }
    byte[][] strings = new byte[(int) shape.size()][];
    for (int i = 0; i < strings.length; i++) {
      strings[i] = readBytes(in);
    }
    return TString.tensorOfBytes(NdArrays.wrap(shape, DataBuffers.ofObjects(strings)));
  }

  private static void writeTensor(DataOutputStream out, Tensor tensor) throws IOException {
    int type = tensor.dataType().getNumber();
    out.writeInt(type);
    out.writeInt(tensor.shape().numDimensions());
    for (long dimension : tensor.shape().asArray()) {
      out.writeLong(dimension);
    }
    if (type != STRING) {
      RawTensor raw = tensor.asRawTensor();
      byte[] numbers = new byte[(int) raw.numBytes()];
      raw.data().read(numbers);
      writeBytes(out, numbers);
      return;
    }
    for (NdArray<byte[]> string : ((TString) tensor).asBytes().scalars()) {
      writeBytes(out, string.getObject());
    }
  }

  private static byte[] readBytes(DataInputStream in) throws IOException {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return bytes;
  }

  private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  private static String readText(DataInputStream in) throws IOException {
    return new String(readBytes(in), StandardCharsets.UTF_8);
  }

  private static void writeText(DataOutputStream out, String text) throws IOException {
    writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
  }
}
