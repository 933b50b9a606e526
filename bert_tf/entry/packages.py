"""Names the extra of bert-tf that installs a missing package."""

from __future__ import annotations

import importlib.util

# Module -> the package that installs it, for all that extras install directly.
PACKAGES = {
    "apache_beam": "apache-beam",
    "datasketch": "datasketch",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "h5py": "h5py",
    "jax": "jax",
    "keras": "keras",
    "keras_hub": "keras-nlp",
    "ml_dtypes": "ml-dtypes",
    "mwparserfromhell": "mwparserfromhell",
    "prometheus_client": "prometheus-client",
    "py3langid": "py3langid",
    "pyarrow": "pyarrow",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "sentencex": "sentencex",
    "sklearn": "scikit-learn",
    "starlette": "starlette",
    "tensorboard": "tensorboard",
    "tensorflow": "tensorflow",
    "tensorflow_serving": "tensorflow-serving-api",
    "tensorflow_text": "tensorflow-text",
    "tokenizers": "tokenizers",
    "uvicorn": "uvicorn",
}
# Packages that have an extra of their own.
_OPTIONAL = {"jax": "jax"}


def require_all() -> None:
    """Raises ModuleNotFoundError unless every package of the extra `all` is installed."""
    for module, package in PACKAGES.items():
        if package not in _OPTIONAL and importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def missing_package(error: BaseException, command: str, extra: str) -> str | None:
    """Returns the message for a command that could not import a package of an extra.

    Args:
        error: raised by the command.
        command: its name, for example `data`.
        extra: the extra that the command needs.

    Returns:
        What to install; None for any other error, and for a package that is installed but incomplete.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    if module not in PACKAGES or importlib.util.find_spec(module) is not None:
        return None
    package = PACKAGES[module]
    extra = _OPTIONAL.get(package, extra)
    return f"`bert-tf {command}` needs {package}. Run `pip install 'bert-tf[{extra}]'`."
