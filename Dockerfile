# docker build -t deep-interest . && docker run --rm -v "$PWD/data:/app/data" deep-interest --pipelines=retrain.simulated.din
FROM python:3.12-slim
ENV DO_NOT_TRACK=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1
WORKDIR /app
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml constraints.txt README.md LICENSE .telemetry ./
COPY src src
COPY conf conf
RUN pip install --constraint constraints.txt torch && pip install --constraint constraints.txt --editable .
VOLUME /app/data
ENTRYPOINT ["kedro", "run"]
