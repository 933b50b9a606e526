"""Converts arrays and messages to plain Python values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def nested_lists(array: np.ndarray) -> Any:
    """Returns numbers or bytes as nested lists: floats with the shortest digits of float32, invalid UTF-8 replaced."""
    if array.dtype == object:
        decoded = [value.decode("utf-8", "replace") for value in array.reshape(-1)]
        return np.array(decoded, dtype=object).reshape(array.shape).tolist()
    if array.dtype == np.float32:
        # The shortest digits of the float32, not those of the equal double.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()


def message_values(message: Message) -> dict[str, Any]:
    """Returns the fields of a message by name, as TF Serving's JSON has them."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def float32_digits(value: float) -> float:
    """Returns the double with the shortest digits that round to the same float32."""
    return float(str(np.float32(value)))
