"""The embedded server: models and their versions, batches of requests, REST and gRPC as TF Serving speaks them."""

from bert_tf.entry.quiet import import_tensorflow
from bert_tf.export.runtime import prefer_onednn, use_system_allocator, without_keras

# Before any module of this folder does; each worker is a process of its own and imports it anew.
prefer_onednn()
use_system_allocator()
import_tensorflow(without_keras())
