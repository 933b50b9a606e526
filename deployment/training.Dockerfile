# Image of training, one variant for each extra of an accelerator (docs/accelerators.md).
#
#   docker build -f deployment/training.Dockerfile -t IMAGE .                              NVIDIA GPUs, TensorFlow
#   docker build -f deployment/training.Dockerfile --build-arg VARIANT=jax-cuda -t IMAGE . NVIDIA GPUs, JAX
#   docker build -f deployment/training.Dockerfile --build-arg VARIANT=tpu -t IMAGE .      TPUs, JAX
#
# The packages contain the CUDA libraries; the host needs NVIDIA's driver and its container toolkit only. This image has
# not been built yet; its installation step was run in virtual environments (deployment/README.md).
ARG PYTHON=3.11
ARG VARIANT=cuda

FROM python:${PYTHON}-slim AS base
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /opt/bert_tf
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY bert_tf bert_tf
COPY beam_pipelines beam_pipelines

FROM base AS cuda
ENV KERAS_BACKEND=tensorflow

FROM base AS jax-cuda
ENV KERAS_BACKEND=jax

FROM base AS tpu
ENV KERAS_BACKEND=jax

FROM ${VARIANT}
ARG VARIANT
RUN pip install --no-cache-dir --constraint constraints.txt ".[all,gcs,s3,${VARIANT}]" && pip check
WORKDIR /work
ENTRYPOINT ["bert-tf"]
CMD ["--help"]
