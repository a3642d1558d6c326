# One image for the API, the workers and migrations; what it is depends on the command.
FROM python:3.13-slim AS build
WORKDIR /app
COPY bootstrap.lock requirements.lock ./
RUN python -m venv /app/.venv \
 && /app/.venv/bin/python -m pip install --no-cache-dir --require-hashes -r bootstrap.lock \
 && /app/.venv/bin/uv pip sync --no-cache --python /app/.venv/bin/python --require-hashes requirements.lock

FROM python:3.13-slim
RUN useradd --system --no-create-home quita
WORKDIR /app
COPY --from=build /app/.venv /app/.venv
COPY domain domain
COPY runtime runtime
COPY sql sql
COPY banks banks
COPY readmodels readmodels
COPY commands commands
COPY workers workers
COPY web web
COPY api api
COPY docs docs
COPY cli cli
RUN mkdir /app/home && chown quita /app/home
ENV PATH=/app/.venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    QUITA_ENV=production QUITA_HOME=/app/home HOST=0.0.0.0 PORT=8000 METRICS_PORT=9464 WORKER_PORT=9465 DRAIN_S=5
USER quita
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "cli.main"]
CMD ["serve"]
