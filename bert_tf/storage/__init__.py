"""Object stores wherever a path is taken: local copies of inputs, mirrors of training data, working copies of outputs.

fsspec is imported when the first URL is used.
"""

from bert_tf.storage.copies import input_path, preset_path
from bert_tf.storage.errors import StoreError
from bert_tf.storage.mirrors import data_path
from bert_tf.storage.outputs import publish, refresh, settle, working_copy
from bert_tf.storage.stores import Store, is_url

__all__ = [
    "Store",
    "StoreError",
    "data_path",
    "input_path",
    "is_url",
    "preset_path",
    "publish",
    "refresh",
    "settle",
    "working_copy",
]
