# The image is the static binary of the server with the licences of all that is linked into it, and nothing
# else: no shell, no packages, no CA certificates (Pillion talks to the API server only, whose
# CA the pod mounts). `make build` makes both first.
FROM scratch

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Pillion" \
      org.opencontainers.image.description="Injects sidecars into Kubernetes pods" \
      org.opencontainers.image.source="https://github.com/pillion-dev/pillion" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY LICENSE /LICENSE
COPY bin/licenses /licenses
COPY bin/pillion-webhook /pillion-webhook

# By number: there is no /etc/passwd, and runAsNonRoot cannot check a name.
USER 65532:65532
EXPOSE 10250 8080
ENTRYPOINT ["/pillion-webhook"]
