# Two commands: `make run` trains the quick start, `make test` passes the tests. Each does the set-up that is missing.
.PHONY: run test setup

run: setup
	cmake --preset dev
	cmake --build build --target product
	build/bin/lfrun --plugin-dir build/plugins configs/quickstart.toml

test: setup
	cmake --preset dev
	cmake --build build
	ctest --test-dir build --output-on-failure -j 2

setup:
	tools/setup.sh
