# Two commands: `make run` trains the quick start, `make test` passes the tests. Each does the set-up that is missing.
# `make build` builds the launcher and every plugin; `make run` only what its job loads.
.PHONY: run build test setup

run: setup
	cmake --preset dev
	cmake --build build --target quickstart
	build/bin/lfrun --plugin-dir build/plugins configs/quickstart.toml

build: setup
	cmake --preset dev
	cmake --build build --target product

test: setup
	cmake --preset dev
	cmake --build build
	ctest --test-dir build --output-on-failure -j 2

setup:
	tools/setup.sh
