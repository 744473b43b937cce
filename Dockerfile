# syntax=docker/dockerfile:1
#
#   docker build --target api        -t detectsched-api .         API, dispatcher and migrations; no OCR inside
#   docker build --target runner-cpu -t detectsched-runner-cpu .  text and ocr lanes on CPUs
#   docker build --target runner-gpu -t detectsched-runner-gpu .  the ocr lane on an NVIDIA GPU (start with --gpus all)
#
# Stores are outside: DETECTSCHED_REDIS_URL, DETECTSCHED_POSTGRES_URL, DETECTSCHED_BLOBS_URL (docs/settings.md). The root
# file system may be read-only; /data is where local blobs go, /tmp what uploads spill to.
ARG PYTHON=3.11
ARG DEBIAN=bookworm

# ---- builder: everything is installed into /opt/detectsched, which the images copy as one layer
FROM python:${PYTHON}-slim-${DEBIAN} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/detectsched
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE alembic.ini ./
COPY alembic alembic
COPY src src

FROM builder AS build-api
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/detectsched/bin/pip install --constraint constraints.txt . \
    && /opt/detectsched/bin/python -m compileall -q /opt/detectsched/lib

FROM builder AS build-runner-cpu
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/detectsched/bin/pip install --constraint constraints.txt '.[ocr]' \
    && /opt/detectsched/bin/python -m compileall -q /opt/detectsched/lib

# CUDA and cuDNN come as wheels: some 3 GB in all, against 14 to 30 GB of images built on CUDA bases.
FROM builder AS build-runner-gpu
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/detectsched/bin/pip install --constraint constraints.txt '.[ocr-gpu]' 'onnxruntime-gpu[cuda,cudnn]>=1.21,<2' \
    && /opt/detectsched/bin/python -m compileall -q /opt/detectsched/lib

# ---- runtime: no compiler, no pip cache, no root
FROM python:${PYTHON}-slim-${DEBIAN} AS runtime
# An init that reaps what a killed engine process leaves behind.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin detectsched \
    && install --directory --owner=10001 --group=10001 /data
ENV PATH=/opt/detectsched/bin:$PATH PYTHONUNBUFFERED=1 DETECTSCHED_BLOBS_URL=file:/data/blobs
LABEL org.opencontainers.image.title="detectsched" \
      org.opencontainers.image.description="Fair, durable, resource-aware scheduling of OCR and sensitive-word detection" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /data
VOLUME /data
USER 10001:10001
ENTRYPOINT ["tini", "--", "detectsched"]

FROM runtime AS api
COPY --from=build-api /opt/detectsched /opt/detectsched
ENV DETECTSCHED_API_HOST=0.0.0.0
EXPOSE 8080
# Alive, not ready: a restart does not mend an absent store. Dispatchers of this image switch it off (--no-healthcheck).
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ.get(\"DETECTSCHED_API_PORT\", 8080)}/livez', timeout=2)"]
CMD ["api"]

# A runner that hangs loses its leases to others and its entry among the runners; one that fails ends, and with it the
# container. There is nothing that a health check from inside would add.
FROM runtime AS runner-cpu
COPY --from=build-runner-cpu /opt/detectsched /opt/detectsched
HEALTHCHECK NONE
CMD ["runner", "--lane", "ocr,text"]

FROM runtime AS runner-gpu
COPY --from=build-runner-gpu /opt/detectsched /opt/detectsched
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
HEALTHCHECK NONE
CMD ["runner", "--lane", "ocr", "--gpu"]
