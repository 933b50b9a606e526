"""Reports missing packages together with the extra that installs them."""

from __future__ import annotations

import importlib.util

# Module -> distribution package, for all direct dependencies of the extras.
PACKAGES = {
    "apache_beam": "apache-beam",
    "datasketch": "datasketch",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "h11": "h11",
    "h5py": "h5py",
    "jax": "jax",
    "jinja2": "jinja2",
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
# Packages with a separate extra.
_OPTIONAL = {"jax": "jax"}


def require_all() -> None:
    """Raises ModuleNotFoundError unless every package of the extra `all` is installed."""
    for module, package in PACKAGES.items():
        if package not in _OPTIONAL and importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def missing_package(error: BaseException, command: str, extra: str) -> str | None:
    """Returns an error message for a command that cannot import a package of an extra.

    Args:
        error: exception raised by the command.
        command: command name, for example `data`.
        extra: extra that the command needs.

    Returns:
        A message that says what to install; None for any other error, or if the package is installed but incomplete.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    if module not in PACKAGES or importlib.util.find_spec(module) is not None:
        return None
    package = PACKAGES[module]
    extra = _OPTIONAL.get(package, extra)
    return f"`bert-tf {command}` needs {package}. Run `pip install 'bert-tf[{extra}]'`."
