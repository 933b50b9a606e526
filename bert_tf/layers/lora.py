"""Low-rank adaptation of layers with a kernel (LoRA, arXiv 2106.09685).

Shape legend: T rows, W input width, U output width, R rank.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops


class LowRankKernel(keras.layers.Layer):
    """Base class of layers that multiply rows by a kernel of W x U numbers, to which `enable_lora` adds a product.

    The kernel then becomes `kernel + alpha / R * a b`, of which only `a` (W, R) and `b` (R, U) are trained. Saved files
    contain the sum as the kernel, so that they are those of a plain layer.
    """

    kernel: Any
    bias: Any
    lora_enabled = False
    lora_rank = 0
    lora_alpha = 0.0

    @property
    def kernel_width(self) -> int:
        """W, the input width."""
        raise NotImplementedError

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freezes kernel and bias, and adds the trained matrices `a` and `b`, as `keras.layers.Dense.enable_lora`.

        Args:
            rank: R.
            lora_alpha: alpha; defaults to R.
            a_initializer: initializer of `a`.
            b_initializer: initializer of `b`; with zeros, the outputs are unchanged at first.

        Raises:
            ValueError: for a rank below 1, and if the layer is not built, is quantized, or has LoRA already.
        """
        if rank < 1:
            raise ValueError(f"`rank` must be at least 1. Received: {rank}")
        if not self.built or self.lora_enabled or self.kernel.dtype == "int8":
            raise ValueError(
                f"{self.path}: LoRA needs a built layer, not quantized and without LoRA. Received: built="
                f"{self.built}, lora_enabled={self.lora_enabled}"
            )
        outputs = math.prod(self.kernel.shape) // self.kernel_width
        self._tracker.unlock()
        options = {"dtype": "float32"}
        self.lora_kernel_a = self.add_weight(
            shape=(self.kernel_width, rank), initializer=a_initializer, name="lora_kernel_a", **options
        )
        self.lora_kernel_b = self.add_weight(
            shape=(rank, outputs), initializer=b_initializer, name="lora_kernel_b", **options
        )
        self._tracker.lock()
        for variable in self._own_weights():
            variable.trainable = False
        self.lora_enabled = True
        self.lora_rank = rank
        self.lora_alpha = rank if lora_alpha is None else lora_alpha

    def _own_weights(self) -> list[Any]:
        """Returns the kernel, and the bias if there is one."""
        return [variable for variable in (self.kernel, self.bias) if variable is not None]

    def low_rank_products(self, rows):
        """Returns the rows (T, W) times `alpha / R * a b`: (T, U)."""
        return ops.matmul(ops.matmul(rows, self.lora_kernel_a), self.lora_kernel_b) * (self.lora_alpha / self.lora_rank)

    def merged_kernel(self):
        """Returns the kernel, with `alpha / R * a b` added if LoRA is enabled."""
        kernel = ops.convert_to_tensor(self.kernel)
        if not self.lora_enabled:
            return kernel
        product = ops.matmul(self.lora_kernel_a, self.lora_kernel_b) * (self.lora_alpha / self.lora_rank)
        return kernel + ops.cast(ops.reshape(product, self.kernel.shape), kernel.dtype)

    def merge_lora(self) -> None:
        """Adds `alpha / R * a b` to the kernel and sets `b` to zero; the outputs are unchanged."""
        if self.lora_enabled:
            self.kernel.assign(self.merged_kernel())
            self.lora_kernel_b.assign(ops.zeros_like(self.lora_kernel_b))

    def save_own_variables(self, store) -> None:
        """Saves the merged kernel and the bias."""
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        for number, value in enumerate([ops.convert_to_numpy(self.merged_kernel()), *self._own_weights()[1:]]):
            store[str(number)] = value

    def load_own_variables(self, store) -> None:
        """Loads kernel and bias, and sets `b` to zero."""
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        for number, variable in enumerate(self._own_weights()):
            variable.assign(store[str(number)])
        self.lora_kernel_b.assign(ops.zeros_like(self.lora_kernel_b))
