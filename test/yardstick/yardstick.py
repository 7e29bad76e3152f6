# SPDX-License-Identifier: Apache-2.0
"""Compares `ktsn schedule plan` with methods of tsnkit, and runs the results of ktsn in tsnkit's simulator.

    yardstick.py KTSN FOLDER SIZE METHODS LIMIT SEED...

SIZE is full (8 to 63 nodes, 10 to 200 streams) or small (8 to 12 nodes, 10 to 20 streams). Each seed is a case of tsnkit's generator.
Prints a line of JSON for each: by method whether there is a schedule and the seconds it took, and of ktsn also the frames that arrived,
late ones, and missing ones. Methods of tsnkit get LIMIT seconds; ktsn always gets 10.
"""
import importlib
import json
import multiprocessing
import os
import queue
import subprocess
import sys
import time
import warnings

import networkx
import numpy
import pandas
from tsnkit.data.dataset_spec import TOPO_FUNC, generate_flowset
from tsnkit.simulation.tas import simulation

warnings.filterwarnings("ignore")
KTSN_SECONDS = 10
BRIDGE_DELAY_NS = 2000


def generate(seed, size, prefix):
    """Writes the tables of a case: line, ring, tree or mesh, and any of tsnkit's periods, sizes and deadlines."""
    random = numpy.random.default_rng(seed)
    switches, streams = (random.integers(4, 32), random.integers(10, 201)) if size == "full" else (random.integers(4, 7), random.integers(10, 21))
    topology, period, length, deadline = random.integers(0, 4), random.integers(1, 7), random.integers(1, 4), random.integers(1, 6)
    numpy.random.seed(seed)
    network = TOPO_FUNC[topology](int(switches), 8, 1, prefix + "-topo")
    generate_flowset(networkx.DiGraph(network), length, period, deadline, int(streams), int(switches), int(switches), prefix + "-task")


def solve(method, prefix, limit, results):
    """Runs in a process of its own."""
    import tsnkit.core

    tsnkit.core.T_LIMIT = limit
    sys.stdout = open(os.devnull, "w")
    try:
        solver = getattr(importlib.import_module("tsnkit.algorithms." + method), method)(1)
        began = time.monotonic()
        solver.init(prefix + "-task.csv", prefix + "-topo.csv")
    except Exception as error:
        results.put(repr(error))
        return
    try:
        solver.prepare()
        schedulable = solver.solve().result == tsnkit.core.Result.schedulable
    except Exception:  # some methods raise where they find nothing
        schedulable = False
    results.put([schedulable, time.monotonic() - began])


def run_method(method, prefix, limit):
    results = multiprocessing.Queue()
    process = multiprocessing.Process(target=solve, args=(method, prefix, limit, results))
    process.start()
    try:
        outcome = results.get(timeout=limit + 5)  # 5 s to start
    except queue.Empty:
        return [False, limit]
    finally:
        process.kill()
        process.join()
    if isinstance(outcome, str):
        sys.exit(f"tsnkit's method {method} cannot be run: {outcome}")
    return outcome


def run_ktsn(ktsn, prefix):
    began = time.monotonic()
    result = subprocess.run([ktsn, "schedule", "plan", prefix + "-task.csv", "--topology", prefix + "-topo.csv", "--tsnkit", prefix,
                             "--time-limit", f"{KTSN_SECONDS}s"], capture_output=True, text=True)
    return [result.returncode == 0, time.monotonic() - began, result.stderr]


HYPERPERIODS = 2


def simulate(prefix):
    """Runs the schedule of ktsn."""
    streams = pandas.read_csv(prefix + "-task.csv")
    offsets = pandas.read_csv(prefix + "-OFFSET.csv").set_index("stream")["offset"]
    logs = simulation(prefix + "-task.csv", prefix + "-", it=HYPERPERIODS, draw_results=False, disable_pbar=True)
    return count(logs, streams, offsets)


def count(logs, streams, offsets):
    """Counts the frames that arrived, late ones, and missing ones: those whose deadline was before the end and that did not arrive until then.
    Times of departure are logged when the frame is in the next queue. Arrivals are logged as long after it."""
    end = HYPERPERIODS * int(numpy.lcm.reduce(list(streams["period"])))
    frames, late, missing = 0, 0, 0
    for (sent, received), (index, stream) in zip(logs, streams.iterrows()):
        frames += len(received)
        for departure, arrival in zip(sent, received):
            late += arrival - (departure - BRIDGE_DELAY_NS - 8 * stream["size"]) > stream["deadline"]
        first = offsets[index] + stream["deadline"]
        due = max(0, (end - 1 - BRIDGE_DELAY_NS - first) // stream["period"] + 1)
        missing += max(0, due - sum(arrival <= first + (due - 1) * stream["period"] for arrival in received))
    return {"frames": frames, "late": int(late), "missing": int(missing)}


def main():
    ktsn, folder, size, methods, limit = sys.argv[1:6]
    for seed in map(int, sys.argv[6:]):
        prefix = os.path.join(folder, f"{size}-{seed}")
        generate(seed, size, prefix)
        schedulable, seconds, message = run_ktsn(ktsn, prefix)
        line = {"seed": seed, "ktsn": [schedulable, seconds], "message": message, **(simulate(prefix) if schedulable else {})}
        line["methods"] = {method: run_method(method, prefix, float(limit)) for method in methods.split(",")}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
