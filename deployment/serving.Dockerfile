# Images of servers with the exported models of saved_models/ and its configurations.
#
#   docker build -f deployment/serving.Dockerfile --target tf_serving -t IMAGE .  TF Serving
#   docker build -f deployment/serving.Dockerfile --target embedded -t IMAGE .    bert-tf serve
#
# Both serve the models of models.config with the flags of saved_models/compose.yaml. These images have not been built
# yet; the installation step of `embedded` was run in a virtual environment (deployment/README.md).
ARG PYTHON=3.11

# An older server may not support the graphs of a newer TensorFlow; 2.20.0 is the newest release (2026-11).
FROM tensorflow/serving:2.20.0 AS tf_serving
COPY saved_models /models
USER 65534:65534
CMD ["--model_config_file=/models/models.config", "--allow_version_labels_for_unavailable_models=true", \
     "--monitoring_config_file=/models/monitoring.config", "--enable_batching=true", \
     "--batching_parameters_file=/models/batching.config"]

FROM python:${PYTHON}-slim AS embedded
WORKDIR /opt/bert_tf
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY bert_tf bert_tf
COPY beam_pipelines beam_pipelines
RUN pip install --no-cache-dir --constraint constraints.txt '.[serve]' && pip check
COPY saved_models /models
USER 65534:65534
EXPOSE 8500 8501
HEALTHCHECK --start-period=120s CMD ["python", "-c", \
     "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/readyz')"]
ENTRYPOINT ["bert-tf", "serve", "--host=0.0.0.0"]
CMD ["--model_config_file=/models/models.config", "--allow_version_labels_for_unavailable_models=true", \
     "--monitoring_config_file=/models/monitoring.config", "--enable_batching=true", \
     "--batching_parameters_file=/models/batching.config"]
