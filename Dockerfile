# Images of Pawl. Targets: operator, launcher (injected into foreign images), worker (launcher and CPU trainer).
# All three hold our programs and exactly the shared libraries that these load: no shell, no package manager.
FROM debian:bookworm-slim AS setup
COPY tools/packages.sh tools/packages.txt /setup/
RUN /setup/packages.sh /setup/packages.txt && rm -rf /var/lib/apt/lists/*

FROM setup AS build
WORKDIR /src
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY tools tools
COPY common common
COPY operator operator
COPY launcher launcher
COPY trainer-runtime trainer-runtime
COPY cli cli
# With a compiler cache mounted at /ccache the build takes seconds when the tree was built outside before.
ENV CCACHE_DIR=/ccache CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content LANG=C.UTF-8
RUN cmake --preset release -DPAWL_TESTS=OFF && \
    cmake --build --preset release --target pawl-operator pawl-launch pawl-train && \
    tools/collect.sh /image/operator /usr build/release/bin/pawl-operator && \
    tools/collect.sh /image/worker /usr build/release/bin/pawl-launch build/release/bin/pawl-train && \
    tools/collect.sh /image/launcher /inject build/release/bin/pawl-launch && \
    rm -rf build

FROM scratch AS operator
COPY --from=build /image/operator /
USER 65532:65532
ENTRYPOINT ["/usr/lib/ld-linux-x86-64.so.2", "--library-path", "/usr/lib", "/usr/bin/pawl-operator"]

FROM scratch AS launcher
COPY --from=build /image/launcher /
USER 65532:65532

FROM scratch AS worker
COPY --from=build /image/worker /
USER 1000:1000
ENV PATH=/usr/bin
