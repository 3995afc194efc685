# Everything that is needed is set up by the targets themselves, in .venv.

# The distribution's optimised build where it is complete: a `python3` that pyenv built is a third slower.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null || echo python3)
BIN := .venv/bin
PIP := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet
# More than two: a good part of the tests waits for clocks and disks.
JOBS ?= 4
# The same sources start hundreds of processes; they are compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-long check clients race bench bench-pipeline simulate jepsen mutants upgrade-wheel format clean

help:
	@echo "make demo    install into .venv and run a broker: produce, poll, commit, kill -9, recover"
	@echo "make test    install into .venv and run the tests"
	@echo "make test-long  the tests that make test leaves out, among them more seeds of simulated clusters"
	@echo "make check   lint, types, import layers, prose of docstrings and headings"
	@echo "make clients run Kafka's own tools and clients of other languages against three brokers (takes up to an hour; needs root or Java, Maven, Go, Node, Cargo)"
	@echo "make race    measure raftlog beside Kafka, NATS, Redis, etcd and pysyncobj (takes an hour and a half; installs them)"
	@echo "make bench   measure (takes about half an hour; needs wrk for the HTTP figures)"
	@echo "make bench AGAINST=PATH  compare with another checkout, in alternating runs (takes about a quarter of an hour)"
	@echo "make bench-pipeline  the same for what runs on Spark (takes about a quarter of an hour; needs Java 17 or 21)"
	@echo "make simulate 1,000 seeds of a simulated cluster with every fault (takes about ten minutes)"
	@echo "make jepsen  real brokers and clients under all kinds of faults (takes about ten minutes; needs gcc and libfaketime)"
	@echo "make mutants one-line changes that a test has to notice, each in a copy (takes up to an hour)"
	@echo "make upgrade-wheel  write the wheel of this release that tests of upgrades begin with"
	@echo "make format  format the code"
	@echo "make clean   remove .venv and caches"

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "raftlog needs Python 3.11 or later; $(PYTHON) is older: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/created pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable '.[dev]'
	@touch $@

demo: .venv/installed
	$(BIN)/raftlog demo

test: .venv/installed-dev
	$(BIN)/python -m tests.system_packages
	$(BIN)/pytest --numprocesses $(JOBS) --dist worksteal --ignore tests/pipeline/spark
	$(BIN)/pytest -m 'spark and not slow' tests/pipeline/spark

test-long: .venv/installed-dev
	$(BIN)/python -m tests.system_packages
	$(BIN)/pytest --numprocesses $(JOBS) --dist worksteal -m 'slow and not spark' --ignore tests/pipeline/spark
	$(BIN)/pytest -m 'spark and slow' tests/pipeline/spark

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose

clients: .venv/installed-dev .venv/paired/installed
	$(BIN)/python -m clients --python .venv/paired/bin/python

race: .venv/installed-dev .venv/paired/installed
	$(BIN)/python -m bench.race --python .venv/paired/bin/python --chart docs/images/race.svg

ifdef AGAINST
bench: .venv/installed-dev .venv/paired/installed
	$(BIN)/python -m bench --against $(AGAINST) --python .venv/paired/bin/python
else
bench: .venv/installed-dev
	$(BIN)/python -m bench
endif

# One interpreter for the brokers of both checkouts, with the dependencies and without any raftlog.
.venv/paired/installed: .venv/installed-dev pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv/paired
	$(BIN)/python -m bench.paired.dependencies > .venv/paired/dependencies.txt
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/paired/bin/pip install --quiet -r .venv/paired/dependencies.txt
	@touch $@

bench-pipeline: .venv/installed-dev
	$(BIN)/python -m bench.pipeline

simulate: .venv/installed-dev
	$(BIN)/python -m jepsen.simulation --seeds 1000

jepsen: .venv/installed-dev
	$(BIN)/python -m jepsen test --faults all --time 120
	$(BIN)/python -m jepsen test --faults kill,damage,members --time 90
	$(BIN)/python -m jepsen test --workload idempotent --faults kill,power,pause,cut,packet,roll --time 40
	$(BIN)/python -m jepsen test --workload groups --faults kill,pause,stall,cut,clock --time 40
	$(BIN)/python -m jepsen test --workload handlers --faults kill,pause,stall,cut,clock --time 40
	$(BIN)/python -m jepsen test --workload compaction --faults kill,power,full,sync --time 40
	$(BIN)/python -m jepsen test --workload trimming --faults kill,power,cut,sync --time 40
	$(BIN)/python -m jepsen test --workload topics --faults kill,pause,cut,roll --time 40
	$(BIN)/python -m jepsen test --workload register --faults kill,power,pause,stall,cut,clock --time 40
	$(BIN)/python -m jepsen test --workload idempotent --client librdkafka --clients 3 --rate 200 --faults kill,power,pause,cut,roll --time 30
	$(BIN)/python -m jepsen test --workload groups --client aiokafka --clients 3 --rate 200 --faults kill,pause,cut,members --time 30
	$(BIN)/python -m jepsen test --workload transactions --client librdkafka --clients 3 --rate 100 --faults kill,pause,cut,clock --time 30
	$(BIN)/python -m jepsen test --workload transactions --client java --clients 3 --rate 100 --faults kill,pause,cut,clock --time 30

mutants: .venv/installed-dev
	$(BIN)/python -m jepsen.mutants

upgrade-wheel: .venv/installed-dev
	$(BIN)/python -m tests.upgrade.releases

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info
