"""The embedded server: model versions, request batching, and the REST and gRPC interfaces of TF Serving."""

from bert_tf.entry.quiet import import_tensorflow
from bert_tf.export.runtime import prefer_onednn, use_system_allocator, without_keras
from bert_tf.serving.memory import limit_arenas

# Before any module of this folder imports TensorFlow. Each worker process imports this package again.
limit_arenas()
prefer_onednn()
use_system_allocator()
import_tensorflow(without_keras())
