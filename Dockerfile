# docker build -t deep-interest .
# docker run --rm -v "$PWD/data:/app/data" deep-interest --pipelines=retrain.simulated.din
#
# The container runs as user 10001, who needs write access to the mounted folder (or use docker run --user "$(id -u)").
# Mount credentials and machine-specific settings at run time: -v "$PWD/conf/local:/app/conf/local:ro"
# Kernels are compiled in every new container; mount a volume at /tmp/numba to keep them.
# To serve: docker build --build-arg EXTRAS=[serve] …, and deploy/compose.yml; with Redis EXTRAS=[serve,redis].
FROM python:3.12-slim
ARG EXTRAS=
ENV DO_NOT_TRACK=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1
WORKDIR /app
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml constraints.txt README.md LICENSE .telemetry ./
COPY src src
COPY conf conf
RUN pip install --constraint constraints.txt torch && pip install --constraint constraints.txt --editable ".$EXTRAS"
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin worker \
    && mkdir -p data conf/local .viz /tmp/numba && chown -R worker data .viz /tmp/numba
ENV HOME=/tmp NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib
USER 10001
VOLUME /app/data
ENTRYPOINT ["kedro", "run"]
