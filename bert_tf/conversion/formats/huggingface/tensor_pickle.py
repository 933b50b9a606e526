"""Reads the pickles of `torch.save` without running their code.

Python's unpickler does not limit what a file builds. A tuple of a million levels as a dictionary key overflows the C
stack when it is hashed; a large memo index reserves memory for all smaller indices. This reader supports only the
opcodes that a dictionary of tensors needs, and limits the nesting depth.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from bert_tf.conversion.tensors import ConversionError

# Maximum nesting depth of containers; a dictionary of tensors with its metadata has about five levels.
MAX_DEPTH = 32
# Opcodes that push their argument.
_NUMBERS = {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "BINFLOAT", "FLOAT"}
_TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
# Python 2 strings, whose bytes pickletools decodes as Latin-1.
_BYTES = {"BINSTRING", "SHORT_BINSTRING"}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, type] = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MEMORIZE = {"BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"}
_RECALL = {"BINGET", "LONG_BINGET", "GET"}
_IGNORED = {"PROTO", "FRAME"}


class _Item:
    """A value on the stack: `depth` is its nesting depth, `inside` is True once a container holds it."""

    __slots__ = ("depth", "inside", "value")

    def __init__(self, value: Any, depth: int = 0) -> None:
        self.value, self.depth, self.inside = value, depth, False


class TensorPickle:
    """Reads one pickle.

    `find` returns the string or function of a global name, and raises ConversionError for an unknown name. Functions
    are called with the arguments in the pickle. `persistent` returns the object of a persistent id.
    """

    def __init__(self, path: Path, find: Callable[[str], Any], persistent: Callable[[Any], Any]) -> None:
        self._path = path
        self._find, self._persistent = find, persistent
        self._stack: list[_Item] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Item] = {}

    def load(self, file: IO[bytes]) -> Any:
        """Reads a pickle from the current position of `file`, which is then at the end of the pickle.

        Raises ConversionError for a damaged pickle, an opcode that tensors do not need, a key that is neither a string
        nor an integer, or more than `MAX_DEPTH` nested containers.
        """
        try:
            for opcode, argument, _ in pickletools.genops(file):
                if opcode.name == "STOP":
                    return self._pop().value
                self._run(opcode.name, argument)
            raise ValueError("it must end with STOP")
        except ConversionError:
            raise
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise ConversionError(f"{self._path}: not a readable file of torch.save: {reason}") from error

    def _run(self, name: str, argument: Any) -> None:
        if name in _NUMBERS or name in _TEXTS:
            self._push(argument)
        elif name in _CONSTANTS:
            self._push(_CONSTANTS[name])
        elif name in _BYTES:
            self._push(argument.encode("latin-1").decode("utf-8"))
        elif name in _EMPTY:
            self._push(_EMPTY[name](), 1)
        elif name in _MEMORIZE:
            self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]
        elif name in _RECALL:
            self._stack.append(self._memo[argument])
        elif name == "MARK":
            self._marks.append(len(self._stack))
        elif name in _TUPLES or name == "TUPLE":
            items = self._items(_TUPLES.get(name))
            self._push(tuple(item.value for item in items), self._depth_around(items))
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            self._fill(self._items({"APPEND": 1, "SETITEM": 2}.get(name)), is_list=name.startswith("APPEND"))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self._push(self._find(self._global_name(argument)))
        elif name == "REDUCE":
            self._call()
        elif name == "BUILD":
            # The state of a dictionary is its attribute `_metadata`, which is ignored.
            self._pop()
            if not isinstance(self._stack[-1].value, dict):
                raise ValueError("only a dictionary may have a state")
        elif name == "BINPERSID":
            self._push(self._persistent(self._pop().value))
        elif name not in _IGNORED:
            raise ValueError(f"opcodes must be those of a dictionary of tensors. Received: {name}")

    def _push(self, value: Any, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"containers must be nested at most {MAX_DEPTH} levels deep. Received: more levels")
        self._stack.append(_Item(value, depth))

    def _pop(self) -> _Item:
        if not self._stack or (self._marks and len(self._stack) <= self._marks[-1]):
            raise ValueError("the stack is empty")
        return self._stack.pop()

    def _items(self, count: int | None) -> list[_Item]:
        """Pops `count` items off the stack, or all items above the last mark."""
        if count is not None:
            return [self._pop() for _ in range(count)][::-1]
        start = self._marks.pop()
        items, self._stack[start:] = self._stack[start:], []
        return items

    def _depth_around(self, items: list[_Item]) -> int:
        for item in items:
            item.inside = True
        return 1 + max((item.depth for item in items), default=0)

    def _fill(self, items: list[_Item], *, is_list: bool) -> None:
        target = self._stack[-1]
        depth = max(target.depth, self._depth_around(items))
        # Filling a container that is nested in another one would add levels that are not counted.
        if target.inside or depth > MAX_DEPTH:
            raise ValueError(f"containers must be filled before they are nested, at most {MAX_DEPTH} levels deep")
        target.depth = depth
        values = [item.value for item in items]
        if is_list and type(target.value) is list:
            target.value.extend(values)
        elif not is_list and isinstance(target.value, dict) and len(values) % 2 == 0:
            target.value.update(zip(map(_key, values[::2]), values[1::2], strict=True))
        else:
            raise ValueError(f"{type(target.value).__name__} cannot be filled")

    def _global_name(self, argument: str | None) -> str:
        if argument is not None:
            return ".".join(argument.split(" ", 1))
        module, name = (item.value for item in self._items(2))
        return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else "?"

    def _call(self) -> None:
        function, arguments = self._items(2)
        if not callable(function.value) or type(arguments.value) is not tuple:
            raise ValueError(f"{type(function.value).__name__} cannot be called")
        self._push(function.value(*arguments.value), arguments.depth)


def ordered(pairs: Any = ()) -> dict[Any, Any]:
    """Replaces OrderedDict. Raises ValueError for keys that are neither strings nor integers."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return {_key(key): value for key, value in items}


def _key(value: Any) -> str | int:
    if type(value) not in (str, int):
        raise ValueError(f"keys must be strings or integers. Received: {type(value).__name__}")
    return value
