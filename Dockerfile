# syntax=docker/dockerfile:1
FROM rust:1.95-slim-bookworm AS build
# aws-lc and jemalloc are C: a compiler and make; their sources come with the crates.
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY .cargo/config.toml .cargo/config.toml
COPY src src
RUN cargo build --release --locked --bin a2a-gateway \
 && strip --strip-debug target/release/a2a-gateway \
 && install -d -o 65532 -g 65532 -m 0700 /var/lib/a2a-gateway

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/a2a-gateway /usr/local/bin/a2a-gateway
COPY --from=build --chown=65532:65532 /var/lib/a2a-gateway /var/lib/a2a-gateway
LABEL org.opencontainers.image.title="a2a-gateway" \
      org.opencontainers.image.description="A gateway in front of Agent2Agent (A2A) agents" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
VOLUME /var/lib/a2a-gateway
EXPOSE 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
  CMD ["/usr/local/bin/a2a-gateway", "health", "--admin", "127.0.0.1:9901"]
ENTRYPOINT ["/usr/local/bin/a2a-gateway"]
CMD ["run", "--config", "/etc/a2a-gateway/gateway.yaml"]
